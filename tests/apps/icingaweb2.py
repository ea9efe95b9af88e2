"""Icinga Web 2 from Debian on PHP's own server, with its accounts in SQLite.

Its form is open to any spelling of its address, and to programs without a token.
"""

import shutil
import sqlite3
from base64 import b64encode
from contextlib import contextmanager

from environments import PLACE
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, call, running, wait_until
from recording import Note
from wordpress import SETTINGS

FORM = "/authentication/login"
HASH = "echo password_hash($argv[1], PASSWORD_BCRYPT);"
AS_JSON = {"Accept": "application/json"}
TABLE = "create table icingaweb_user (name text primary key, active int, password_hash blob, ctime text, mtime text)"
FILES = {
    "resources.ini": '[people]\ntype = "db"\ndb = "sqlite"\ndbname = "{directory}/people.sqlite"\n',
    "authentication.ini": '[people]\nbackend = "db"\nresource = "people"\n',
    "config.ini": '[global]\nconfig_backend = "none"\nmodule_path = "{directory}/modules"\n[logging]\nlog = "none"\n',
    "roles.ini": '[all]\nusers = "*"\npermissions = "*"\n',
}


class IcingaWeb:
    """A running site."""

    title = "Icinga Web 2"
    preset = "icingaweb2"
    place = "icingaweb2"
    wrong, right, proves, has_accounts = 200, 302, True, True

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """Two accounts and the server, for the length of the block."""
        unpacked, root, library = PLACE / "icingaweb2" / "usr/share", directory / "root", directory / "library"
        shutil.copytree(unpacked / "icingaweb2", root, ignore_dangling_symlinks=True)
        shutil.copytree(unpacked / "icinga-php", library, ignore_dangling_symlinks=True)
        script = root / "public" / "index.php"
        script.write_text(script.read_text().replace("/usr/share/php", f"{unpacked}/php"))
        for part in ("config", "modules"):
            (directory / part).mkdir()
        for name, text in FILES.items():
            (directory / "config" / name).write_text(text.format(directory=directory))
        with sqlite3.connect(directory / "people.sqlite") as tables:
            tables.execute(TABLE)
            for user, password in ((USER, PASSWORD), (OTHER, OTHERS_PASSWORD)):
                hashed = call(["php", "-r", HASH, password], directory / "hash.log").strip()
                tables.execute("insert into icingaweb_user values (?, 1, ?, null, null)", (user, hashed))
        env = {"ICINGAWEB_CONFIGDIR": str(directory / "config"), "ICINGAWEB_LIBDIR": str(library)}
        command = ["php", *SETTINGS, "-d", f"include_path={unpacked}/php", "-d", f"session.save_path={directory}"]
        command += ["-S", "%s:%d" % address, "-t", str(root / "public"), str(script)]
        with running("php -S", command, directory / "php.log", env) as server:
            wait_until(lambda: accepts(address), server)
            yield cls()

    @staticmethod
    def attempt(visitor, user, password, note=None, **others):
        """The form as the page has it, once its cookie has come back."""
        visitor.get(FORM)
        token = visitor.keep(visitor.get(FORM).find('name="CSRFToken"[^>]*value="([^"]+)'))
        fields = {"username": user, "password": password, "rememberme": "0", "redirect": "", "formUID": "form_login"}
        return visitor.form(FORM, fields | {"CSRFToken": token, "btn_submit": "Login"} | others, note=note)

    def visits(self, visitor):
        """The form, the same without a token as programs ask, at another spelling, and Basic."""

        def attempt(name, expect, user, password, visitor=visitor, shows="", **others):
            return self.attempt(visitor, user, password, Note(name, expect, user, "icingaweb2", shows), **others)

        first = visitor.another()
        first.get(FORM)
        first.get(FORM, note=Note("form", "none", shows=""))
        wrong = "Incorrect username or password"
        attempt("wrong-password", "failure", USER, "wrong", shows=wrong)
        attempt("unknown-account", "failure", "nobody", "wrong", shows=wrong)
        attempt("empty", "failure", "", "")
        attempt("wrong-token", "failure", USER, PASSWORD, CSRFToken="1|x")
        attempt("right-password", "success", USER, PASSWORD)
        note = Note("without-cookies", "failure", USER, "icingaweb2", "")
        visitor.another().form(FORM, {"username": USER, "password": PASSWORD}, note=note)
        attacker = visitor.another()
        self.attempt(attacker, OTHER, OTHERS_PASSWORD)
        fields = {"username": USER, "password": "wrong", "formUID": "form_login", "btn_submit": "Login"}
        attacker.form(FORM, fields, note=Note("wrong-password-while-signed-in", "failure", USER, "icingaweb2", ""))
        for path, place in ((FORM, "json"), ("/authentication/log!in", "json-elsewhere")):
            for name, expect, password in (("wrong", "failure", "wrong"), ("right", "success", PASSWORD)):
                note = Note(f"{place}-{name}", expect, USER, "icingaweb2", members=("/status",))
                program = visitor.another()
                program.cookies["any"] = "1"
                program.form(path, {"username": USER, "password": password}, headers=dict(AS_JSON), note=note)
        self.basic(visitor.another())
        visitor.get("/authentication/logout", note=Note("sign-out", "none", shows=""))

    @staticmethod
    def basic(visitor):
        """Only where a program asks for JSON."""
        token = {name: basic_token(password) for name, password in (("right", PASSWORD), ("wrong", "wrong"))}
        for name, credentials in token.items():
            for page, place in (("/about", ""), (FORM, "-elsewhere")):
                note = Note(f"basic-{name}{place}", "failure", USER, "icingaweb2-api", "")
                visitor.another().get(page, headers=AS_JSON | {"Authorization": credentials}, note=note)


def basic_token(password):
    """What stands in the header."""
    return "Basic " + b64encode(f"{USER}:{password}".encode()).decode()
