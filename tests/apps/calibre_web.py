"""Calibre-Web from PyPI, with an empty library.

A wrong password is answered 401; a client that is signed in is redirected like one with the right password.
"""

import hashlib
import shutil
import sqlite3
from contextlib import contextmanager

from environments import PLACE, python
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, call, running, wait_until
from recording import Note

FORM = "/login"

LIBRARY = """
import sys
from contextlib import suppress
from importlib.util import find_spec
sys.path.insert(0, find_spec('calibreweb').submodule_search_locations[0])
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError
from cps.db import Base
engine = create_engine(f'sqlite:///{sys.argv[1]}/metadata.db')
for table in Base.metadata.sorted_tables:
    with suppress(OperationalError):  # for an index that has the name of another one
        table.create(engine)
with engine.begin() as connection:
    connection.execute(text("INSERT INTO library_id (uuid) VALUES ('made-up')"))
"""


class CalibreWeb:
    """A running server."""

    title = "Calibre-Web"
    preset = "calibre-web"
    place = "calibre-web"
    wrong, right, proves, has_accounts = 401, 302, False, True

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """Two accounts and the server, for the length of the block."""
        place, base, (host, port) = PLACE / cls.place, directory / "app.db", address
        command = [python("calibre-web", "cps"), "-p", str(base), "-g", str(directory / "gdrive.db")]
        env = {"HOME": str(directory)}
        if not (place / "app.db").exists():  # made once: it takes seconds
            call([*command, "-s", "admin:Administrator-1"], directory / "tables.log", env, directory)
            call([python("calibre-web"), "-c", LIBRARY, str(place)], directory / "library.log")
            shutil.copy(base, place)
        for name in ("app.db", "metadata.db"):
            shutil.copy(place / name, directory)
        fill(base, directory, port)
        with running("cps", [*command, "-i", host], directory / "cps.log", env, directory) as server:
            wait_until(lambda: accepts(address), server)
            yield cls()

    @staticmethod
    def attempt(visitor, user, password, note=None, **others):
        """The form as the page has it."""
        token = visitor.keep(visitor.get(FORM).find('name="csrf_token" value="([^"]+)'))
        fields = {"username": user, "password": password, "csrf_token": token, "next": "/"}
        return visitor.form(FORM, fields | others, note=note)

    def visits(self, visitor):
        """The form, which is also that of forgotten passwords, and Basic."""

        def attempt(name, user, password, guest=None, shows="Wrong Username or Password", **others):
            spelling = USER if user.lower().strip() == USER != user else None
            note = Note(name, "failure", user, "calibre-web", shows, spelling)
            return self.attempt(guest or visitor.another(), user, password, note, **others)

        visitor.get(FORM, note=Note("form", "none", shows='name="password"'))
        attempt("wrong-password", USER, "wrong")
        attempt("unknown-account", "nobody", "wrong")
        attempt("empty", "", "")
        attempt("wrong-token", USER, PASSWORD, shows="", csrf_token="made-up")
        owner = visitor.another()
        attempt("right-password", USER, PASSWORD, owner, "")
        owner.get("/me", note=Note("page-behind-the-right-password", "none", shows="<title>"))
        attempt("right-password-and-remember", USER, PASSWORD, shows="", remember_me="on")
        attempt("right-password-capitals-and-blanks", f" {USER.upper()} ", PASSWORD, shows="")
        token = owner.keep(owner.get("/me").find('name="csrf_token" value="([^"]+)'))
        note = Note("wrong-password-while-signed-in", "failure", OTHER, "calibre-web", "")
        owner.form(FORM, {"username": OTHER, "password": "wrong", "csrf_token": token}, note=note)
        guest = visitor.another()
        token = guest.keep(guest.get(FORM).find('name="csrf_token" value="([^"]+)'))
        fields = {"username": USER, "password": "", "forgot": "forgot", "csrf_token": token}
        guest.form(FORM, fields, note=Note("lost-password", "failure", USER, "calibre-web-mail calibre-web", ""))
        for name, page in (("", "/opds"), ("-elsewhere", FORM)):
            for kind, password in (("right", PASSWORD), ("wrong", "wrong")):
                expect = "failure" if (kind, page) == ("wrong", "/opds") else "neutral"
                note = Note(f"basic-{kind}{name}", expect, USER, "calibre-web-opds", "")
                visitor.another().basic(page, USER, password, note=note)


def fill(base, library, port):
    """Two accounts like the first one, and no bound of its own."""
    connection = sqlite3.connect(base)
    with connection:
        settings = "config_ratelimiter = 0, config_calibre_uuid = 'made-up', config_calibre_dir = ?, config_port = ?"
        connection.execute(f"UPDATE settings SET {settings}", (str(library), port))
        columns = [name for _, name, *_ in connection.execute("PRAGMA table_info(user)")]
        others = ", ".join(name for name in columns if name not in ("id", "name", "email", "password"))
        for user, password in ((USER, PASSWORD), (OTHER, OTHERS_PASSWORD)):
            key = hashlib.pbkdf2_hmac("sha256", password.encode(), b"made-up", 1000).hex()
            values = (user, f"{user}@app.example", f"pbkdf2:sha256:1000$made-up${key}")
            insert = f"INSERT INTO user (name, email, password, {others}) SELECT ?, ?, ?, {others} FROM user WHERE id = 1"
            connection.execute(insert, values)
    connection.close()
