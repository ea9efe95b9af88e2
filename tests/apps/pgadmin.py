"""pgAdmin from PyPI in server mode, with its accounts in SQLite: two forms for the same passwords."""

import re
from contextlib import contextmanager

from environments import python
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, call, running, wait_until
from recording import Note

FORM, DIRECT = "/authenticate/login", "/login"
CONFIG = """
SERVER_MODE = True
DATA_DIR = "{directory}"
LOG_FILE = "{directory}/pgadmin-own.log"
SQLITE_PATH = "{directory}/pgadmin.db"
SESSION_DB_PATH = "{directory}/sessions"
STORAGE_DIR = "{directory}/storage"
DEFAULT_SERVER = "{host}"
DEFAULT_SERVER_PORT = {port}
UPGRADE_CHECK_ENABLED = False
ENHANCED_COOKIE_PROTECTION = False
MAX_LOGIN_ATTEMPTS = 0
"""


class PgAdmin:
    """A running server."""

    title = "pgAdmin"
    preset = "pgadmin"
    place = "pgadmin"
    wrong, right, proves, has_accounts = 302, 302, True, True

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """Two accounts and the server, for the length of the block."""
        config = CONFIG.format(directory=directory, host=address[0], port=address[1])
        (directory / "config_local.py").write_text(config)
        env = {"PYTHONPATH": str(directory), "HOME": str(directory)}
        env |= {"PGADMIN_SETUP_EMAIL": mail_of(USER), "PGADMIN_SETUP_PASSWORD": PASSWORD}
        setup = [python("pgadmin", "pgadmin4-cli")]
        call([*setup, "setup-db"], directory / "setup.log", env, directory, 300)
        call([*setup, "add-user", mail_of(OTHER), OTHERS_PASSWORD], directory / "people.log", env, directory, 300)
        with running("pgadmin", [python("pgadmin", "pgadmin4")], directory / "pgadmin.log", env, directory) as server:
            wait_until(lambda: accepts(address), server)
            yield cls()

    @staticmethod
    def attempt(visitor, user, password, note=None, path=FORM, **others):
        """The form as the page has it."""
        page = visitor.get("/login").body
        known = re.search(r"csrfToken['\"&#394;]*:\s*['\"&#394;]*([^'\"&]+)", page)
        fields = {"csrf_token": visitor.keep(known[1]) if known else "", "email": mail_of(user), "password": password}
        return visitor.form(path, fields | {"internal_button": "Login"} | others, note=note)

    def visits(self, visitor):
        """Both forms, and a new password by mail."""

        def attempt(name, expect, user, password, visitor=None, door="pgadmin", **others):
            visitor = visitor or first.another()
            return self.attempt(visitor, user, password, Note(name, expect, mail_of(user), door, ""), **others)

        first = visitor
        visitor.get("/login", note=Note("form", "none", shows=""))
        attempt("wrong-password", "failure", USER, "wrong")
        attempt("unknown-account", "failure", "nobody", "wrong")
        attempt("wrong-token", "failure", USER, PASSWORD, csrf_token="x")
        attempt("right-password", "success", USER, PASSWORD)
        attempt("wrong-password-and-a-page", "failure", USER, "wrong", next="/browser/")
        attacker = visitor.another()
        self.attempt(attacker, OTHER, OTHERS_PASSWORD)
        attempt("wrong-password-while-signed-in", "failure", USER, "wrong", attacker)
        for name, password in (("wrong", "wrong"), ("right", PASSWORD)):
            attempt(f"direct-{name}", "failure", USER, password, door="pgadmin-direct", path=DIRECT)
        attacker = visitor.another()
        self.attempt(attacker, OTHER, OTHERS_PASSWORD)
        attempt("direct-wrong-while-signed-in", "failure", USER, "wrong", attacker, "pgadmin-direct", path=DIRECT)
        note = Note("lost-password", "failure", mail_of(USER), "pgadmin-mail", "")
        self.attempt(visitor.another(), USER, "", note, "/browser/reset_password")


def mail_of(user):
    """The account's name."""
    return user if "@" in user else f"{user}@app.example.org"
