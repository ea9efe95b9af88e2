"""OctoPrint from PyPI, without a printer: a sign-in as JSON, and Basic where it is trusted."""

import json
from contextlib import contextmanager, suppress
from http.client import HTTPException

from environments import python
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import call, running, wait_until
from recording import Note, Visitor

FORM = "/api/login"
CONFIG = """
accessControl:
  trustBasicAuthentication: true
  checkBasicAuthenticationPassword: true
server:
  firstRun: false
  reverseProxy:
    trustLocalhostProxies: false
    trustedProxies: [127.0.0.1]
  onlineCheck:
    enabled: false
  pluginBlacklist:
    enabled: false
plugins:
  _disabled: [announcements, discovery, pluginmanager, softwareupdate, tracking, backup, virtual_printer]
"""


class OctoPrint:
    """A running server."""

    title = "OctoPrint"
    preset = "octoprint"
    place = "octoprint"
    wrong, right, proves, has_accounts = 403, 200, False, True

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """Two accounts and the server, for the length of the block."""
        (directory / "config.yaml").write_text(CONFIG)
        command = [python("octoprint", "octoprint"), "--basedir", str(directory)]
        for user, password in ((USER, PASSWORD), (OTHER, OTHERS_PASSWORD)):
            call([*command, "user", "add", user, "--password", password, "--admin"], directory / f"{user}.log")
        host, port = address
        command += ["serve", "--iknowwhatimdoing", "--host", host, "--port", str(port)]
        with running("octoprint", command, directory / "octoprint.log") as server:
            wait_until(lambda: is_ready(address), server)
            yield cls()

    @staticmethod
    def attempt(visitor, user, password, note=None, path=FORM, token=None, **others):
        """What the page sends, with the token of its cookie."""
        if not any("csrf_token" in cookie for cookie in visitor.cookies):
            visitor.get("/login/")
        known = next(value for name, value in visitor.cookies.items() if name.startswith("csrf_token"))
        fields = {"user": user, "pass": password, "remember": False} | others
        headers = {"X-CSRF-Token": visitor.keep(token or known)}
        return visitor.ask("POST", path, json.dumps(fields), "application/json", headers, note)

    def visits(self, visitor):
        """Sign-ins, which of them are none, and Basic. Three failures in a minute from one address are all it judges."""

        def attempt(name, expect, user, password, visitor=None, **others):
            visitor = visitor or sources()
            shows = '"name"' if name.startswith("right") else None
            return self.attempt(visitor, user, password, Note(name, expect, user, "octoprint", shows), **others)

        numbers = iter(range(1, 100))

        def sources():
            fresh = visitor.another(f"127.8.0.{next(numbers)}")
            fresh.keep(str(visitor.address[1]), "80")  # in the names of the cookies
            return fresh

        visitor.keep(str(visitor.address[1]), "80")
        visitor.get("/login/", note=Note("form", "none", shows="<title>OctoPrint Login"))
        attempt("wrong-password", "failure", USER, "wrong")
        attempt("unknown-account", "failure", "nobody", "wrong")
        attempt("empty", "failure", "", "")
        attempt("wrong-token", "failure", USER, PASSWORD, token="x" * 32)
        attempt("right-password", "failure", USER, PASSWORD)
        attacker = sources()
        attempt("right-password-and-remember", "failure", OTHER, OTHERS_PASSWORD, attacker, remember=True)
        attempt("wrong-password-while-signed-in", "failure", USER, "wrong", attacker)
        note = Note("passive-with-a-name", "failure", USER, "octoprint", '"name"')
        known = next(value for name, value in attacker.cookies.items() if name.startswith("csrf_token"))
        path = f"{FORM}?user={USER}&pass=wrong"
        attacker.ask("POST", path, '{"passive": true}', "application/json", {"X-CSRF-Token": attacker.keep(known)}, note)
        note = Note("passive", "none", shows='"name"')
        attacker.ask("POST", FORM, '{"passive": true}', "application/json", {"X-CSRF-Token": attacker.keep(known)}, note)
        locked = sources()
        for _ in range(3):
            self.attempt(locked, USER, "wrong")
        attempt("too-many-attempts", "failure", USER, "wrong", locked)
        self.basic(sources)

    @staticmethod
    def basic(sources):
        """Only where the configuration trusts it."""
        door, page = "octoprint-basic", "/api/version"
        sources().basic(page, USER, PASSWORD, note=Note("basic-right", "neutral", USER, door))
        sources().basic(page, USER, "wrong", note=Note("basic-wrong", "failure", USER, door))
        sources().basic("/login/", USER, "wrong", note=Note("basic-wrong-elsewhere", "neutral", USER, door, ""))


def is_ready(address):
    """Another server answers while it starts."""
    with suppress(OSError, HTTPException):
        return Visitor(address, []).get("/login/").status == 200
    return False
