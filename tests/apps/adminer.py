"""Adminer from Debian on PHP's own server, before a MariaDB of its own.

It redirects right and wrong passwords alike, and tries the password when the page comes that it redirects to.
"""

import shutil
from base64 import b64encode
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, unquote

from environments import PLACE
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from phpmyadmin import FILES as ACCOUNTS
from processes import accepts, call, running, wait_until
from recording import Note
from wordpress import SETTINGS, database

FORM = "/adminer.php"


class Adminer:
    """A running script; `server` is the database that its visitors name."""

    title = "Adminer"
    preset = "adminer"
    place = "adminer"
    wrong, right, proves, has_accounts = 302, 302, False, True

    def __init__(self, server):
        self.server = server

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """Database, two accounts and the server, for the length of the block."""
        root = directory / "root"
        shutil.copytree(PLACE / "adminer" / "usr" / "share" / "adminer", root)
        with database(directory) as env:
            people = ((USER, PASSWORD), (OTHER, OTHERS_PASSWORD))
            accounts = directory / "people.sql"
            accounts.write_text(
                "".join(f"CREATE USER {user}@localhost IDENTIFIED BY '{password}';\n" for user, password in people)
            )
            call(["php", str(ACCOUNTS / "accounts.php"), str(accounts)], directory / "accounts.log", env)
            command = ["php", *SETTINGS, "-d", f"sys_temp_dir={directory}", "-d", f"session.save_path={directory}"]
            with running("php -S", [*command, "-S", "%s:%d" % address, "-t", str(root)], directory / "php.log") as server:
                wait_until(lambda: accepts(address), server)
                yield cls(f"localhost:{env['APP_DB_SOCKET']}")

    def attempt(self, visitor, user, password, note=None, path=FORM, **others):
        """The form as the page has it."""
        visitor.get(FORM)
        visitor.keep(self.server, "localhost")
        fields = {"driver": "server", "server": self.server, "username": user, "password": password, "db": ""}
        return visitor.form(path, {f"auth[{name}]": value for name, value in (fields | others).items()}, note=note)

    def page(self, visitor, user, note):
        """Where the form leads to."""
        visitor.keep(quote(self.server, safe=""), "localhost")
        return visitor.get(f"{FORM}?server={quote(self.server, safe='')}&username={user}", note=note)

    def visits(self, visitor):
        """Sign-ins, which are all answered alike, the pages behind them, and a password that was remembered."""

        def attempt(name, user, password, visitor=None, **others):
            visitor = visitor or address.another()
            self.attempt(visitor, user, password, Note(name, "failure", user, "adminer", ""), **others)
            return visitor

        address = visitor
        visitor.get(FORM, note=Note("form", "none", shows="auth[password]"))
        wrong = attempt("wrong-password", USER, "wrong")
        self.page(wrong, USER, Note("page-behind-a-wrong-password", "none", shows="Access denied"))
        attempt("unknown-account", "nobody", "wrong")
        attempt("empty", "", "")
        right = attempt("right-password", USER, PASSWORD)
        self.page(right, USER, Note("page-behind-the-right-password", "none", shows="Logout"))
        attempt("wrong-password-while-signed-in", USER, "wrong", attempt("right-password-of-another", OTHER, OTHERS_PASSWORD))
        elsewhere = f"{FORM}?server={quote(self.server, safe='')}&username={USER}"
        attempt("wrong-password-elsewhere", USER, "wrong", path=elsewhere)
        self.remembered(address, attempt("remembered", "nobody", PASSWORD, permanent="1"))

    def remembered(self, visitor, somebody):
        """The password in a cookie is tried for whatever name stands beside it, without the form."""
        cipher = unquote(somebody.cookies["adminer_permanent"]).rpartition(":")[2]
        for name, user, expect, shows in (
            ("remembered-password-of-another", OTHER, "failure", "Access denied"),
            ("remembered-password-right", USER, "neutral", "Logout"),
        ):
            guess = visitor.another()
            words = "-".join(b64encode(word.encode()).decode() for word in ("server", self.server, user, ""))
            guess.cookies = {"adminer_permanent": quote(f"{words}:{cipher}"), "adminer_key": "0" * 32}
            self.page(guess, user, Note(name, expect, user, "adminer-permanent", shows))
        note = Note("page-without-a-session", "none", shows="auth[password]")
        self.page(visitor.another(), USER, note)
