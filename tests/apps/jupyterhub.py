"""JupyterHub from PyPI, with its proxy from npm and an authenticator that has one password for all names."""

import json
from contextlib import contextmanager

from environments import npm, python
from person import OTHER, PASSWORD, USER
from processes import accepts, free_address, running, url, wait_until
from recording import Note

FORM = "/hub/login"
TOKENS = "/hub/api/users/{}/tokens"


class JupyterHub:
    """A running hub."""

    title = "JupyterHub"
    preset = "jupyterhub"
    place = "jupyterhub"
    wrong, right, proves, has_accounts = 403, 302, True, True

    @classmethod
    @contextmanager
    def start(cls, directory, address, site):
        """The hub and its proxy, for the length of the block."""
        settings = {
            "JupyterHub.bind_url": url(address),
            "JupyterHub.hub_bind_url": url(free_address()),
            "ConfigurableHTTPProxy.api_url": url(free_address()),
            "ConfigurableHTTPProxy.command": [npm("hub-proxy", "configurable-http-proxy")],
            "JupyterHub.authenticator_class": "dummy",
            "DummyAuthenticator.password": PASSWORD,
            "Authenticator.allow_all": True,
            "JupyterHub.spawner_class": "simple",
        }
        config = directory / "config.py"
        config.write_text("".join(f"c.{name} = {value!r}\n" for name, value in settings.items()))
        command = [python("jupyterhub", "jupyterhub"), "-f", str(config)]
        with running("jupyterhub", command, directory / "hub.log", cwd=directory) as server:
            wait_until(lambda: accepts(address) and "JupyterHub is now running" in (directory / "hub.log").read_text(), server)
            yield cls()

    @staticmethod
    def token(visitor):
        """The form's token, which is in a cookie as well."""
        visitor.get(FORM)
        return visitor.keep(visitor.cookies["_xsrf"])

    @classmethod
    def attempt(cls, visitor, user, password, note=None, **others):
        """The form as the page has it."""
        fields = {"_xsrf": cls.token(visitor), "username": user, "password": password}
        return visitor.form(FORM, fields | others, note=note)

    def visits(self, visitor):
        """Sign-ins by the form, and tokens for passwords."""

        def attempt(name, expect, user, password, visitor=visitor, spelling_of=None, **others):
            note = Note(name, expect, user.strip(), "jupyterhub", "", spelling_of)
            return self.attempt(visitor, user, password, note, **others)

        visitor.get(FORM, note=Note("form", "none", shows='name="password"'))
        attempt("wrong-password", "failure", USER, "wrong")
        attempt("unknown-account", "failure", "nobody", "wrong")
        attempt("empty", "failure", "", "")
        attempt("wrong-token", "failure", USER, PASSWORD, _xsrf="x" * 32)
        attempt("right-password", "success", USER, PASSWORD)
        attempt("spelling-capitals", "success", USER.upper(), PASSWORD, visitor.another(), USER)
        attempt("spelling-blanks", "success", f" {USER} ", PASSWORD, visitor.another(), USER)
        attempt("spelling-controls", "success", f"{USER}\x01", PASSWORD, visitor.another(), USER)
        attempt("right-password-again", "failure", USER, PASSWORD)
        attacker = visitor.another()
        self.attempt(attacker, OTHER, PASSWORD)
        attempt("wrong-password-while-signed-in", "failure", USER, "wrong", attacker)
        self.tokens(visitor.another(), attacker)
        visitor.get("/hub/logout", note=Note("sign-out", "none", shows=""))

    @staticmethod
    def tokens(visitor, attacker):
        """A token for a name and a password, by nobody and by somebody else, for whom any password does."""
        door = "jupyterhub-token"

        def ask(name, visitor, owner, user, password, **options):
            note = Note(name, "failure", user, door, hides=r'"token": "([^"]+)', **options)
            headers = {"X-Xsrftoken": visitor.cookies.get("_xsrf", "")} if visitor.cookies else {}
            fields = {"auth": {"username": user, "password": password}}
            return visitor.ask("POST", TOKENS.format(owner), json.dumps(fields), "application/json", headers, note)

        ask("token-right", visitor, USER, USER, PASSWORD, shows='"token"')
        ask("token-by-somebody-else", attacker, OTHER, USER, "wrong", shows='"token"')
