"""Apache Airflow from PyPI with SQLite and the accounts of its FAB provider: tokens for passwords, and a form."""

from contextlib import contextmanager

from environments import python
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, call, running, wait_until
from recording import Note

TOKEN, FORM = "/auth/token", "/auth/login/"
SETTINGS = {
    "CORE__AUTH_MANAGER": "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager",
    "CORE__LOAD_EXAMPLES": "False",
    "FAB__AUTH_RATE_LIMITED": "False",
    "API__SECRET_KEY": "a throw-away server",
    "API_AUTH__JWT_SECRET": "a throw-away server, which has no secrets, but long ones to sign with",
}


class Airflow:
    """A running server."""

    title = "Apache Airflow"
    preset = "airflow"
    place = "airflow"
    wrong, right, proves, has_accounts = 401, 201, True, True

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """Tables, two accounts and the server, for the length of the block."""
        env = {"AIRFLOW_HOME": str(directory)} | {f"AIRFLOW__{name}": value for name, value in SETTINGS.items()}
        airflow = [python("airflow", "airflow")]
        call([*airflow, "db", "migrate"], directory / "migrate.log", env, directory, 300)
        for user, password in ((USER, PASSWORD), (OTHER, OTHERS_PASSWORD)):
            words = {"username": user, "firstname": user, "lastname": "x", "role": "Admin", "password": password}
            options = [word for name, value in words.items() for word in (f"--{name}", value)]
            options += ["--email", f"{user}@app.example"]
            call([*airflow, "users", "create", *options], directory / f"{user}.log", env, directory, 300)
        command = [*airflow, "api-server", "--host", address[0], "--port", str(address[1]), "--workers", "1"]
        with running("airflow", command, directory / "airflow.log", env, directory) as server:
            wait_until(lambda: accepts(address), server)
            yield cls()

    @staticmethod
    def attempt(visitor, user, password, note=None, path=TOKEN):
        """What programs send; the token of an answer is kept out of its recording."""
        return visitor.json(path, {"username": user, "password": password}, note=note)

    @staticmethod
    def form(visitor, user, password, note=None):
        """The form as the page has it."""
        if not visitor.cookies:
            visitor.csrf = visitor.get(FORM).find(r'name="csrf_token"[^>]*value="([^"]+)')
        fields = {"csrf_token": visitor.keep(visitor.csrf), "username": user, "password": password}
        return visitor.form(FORM, fields, note=note)

    def visits(self, visitor):
        """Tokens for passwords, and the form, whose answers prove nothing."""

        def attempt(name, expect, user, password, spelling_of=None, **others):
            hides = r'"access_token":"([^"]+)' if expect == "success" else None
            self.attempt(visitor, user, password, Note(name, expect, user, "airflow", spelling_of=spelling_of, hides=hides), **others)

        attempt("wrong-password", "failure", USER, "wrong")
        attempt("unknown-account", "failure", "nobody", "wrong")
        attempt("empty", "failure", "", "")
        attempt("right-password", "success", USER, PASSWORD)
        attempt("right-password-of-a-program", "success", USER, PASSWORD, path="/auth/token/cli")
        attempt("spelling-capitals", "success", USER.upper(), PASSWORD, USER)

        def by_form(name, user, password, visitor):
            self.form(visitor, user, password, Note(f"form-{name}", "failure", user, "airflow-form", ""))

        page = visitor.another()
        page.get(FORM, note=Note("form", "none", shows='name="password"'))
        by_form("wrong", USER, "wrong", visitor.another())
        by_form("right", USER, PASSWORD, visitor.another())
        attacker = visitor.another()
        self.form(attacker, OTHER, OTHERS_PASSWORD)
        by_form("wrong-while-signed-in", USER, "wrong", attacker)
        attacker.get("/auth/logout", note=Note("sign-out", "none", shows=""))
