"""Home Assistant from PyPI: a sign-in of several steps, all of which are answered 200."""

from contextlib import contextmanager

from environments import python
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, call, running, wait_until
from recording import Note

FLOW = "/auth/login_flow"
CLIENT = "http://app.example/"
MEMBERS = ("/type", "/step_id", "/errors/base", "/version")
CONFIG = """
http:
  server_host: {host}
  server_port: {port}
  use_x_forwarded_for: true
  trusted_proxies: [127.0.0.1]
  ip_ban_enabled: false
auth:
api:
"""


class HomeAssistant:
    """A running server."""

    title = "Home Assistant"
    preset = "home-assistant"
    place = "home-assistant"
    wrong, right, proves, has_accounts = 200, 200, True, True

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """Two accounts and the server, for the length of the block."""
        config = directory / "config"
        config.mkdir()
        (config / "configuration.yaml").write_text(CONFIG.format(host=address[0], port=address[1]))
        hass = [python("home-assistant", "hass")]
        for user, password in ((USER, PASSWORD), (OTHER, OTHERS_PASSWORD)):
            call([*hass, "--script", "auth", "-c", str(config), "add", user, password], directory / f"{user}.log")
        command = [*hass, "-c", str(config), "--skip-pip"]
        with running("hass", command, directory / "hass.log") as server:
            wait_until(lambda: accepts(address), server)
            yield cls()

    @staticmethod
    def flow(visitor):
        """A new sign-in, which is at an address of its own."""
        start = {"client_id": CLIENT, "handler": ["homeassistant", None], "redirect_uri": f"{CLIENT}?auth_callback=1"}
        flow = visitor.keep(visitor.json(FLOW, start).json("flow_id"), "0123456789abcdef0123456789abcdef")
        return f"{FLOW}/{flow}"

    @classmethod
    def attempt(cls, visitor, user, password, note=None, query="", **others):
        """The step that has the password."""
        fields = {"client_id": CLIENT, "username": user, "password": password}
        return visitor.json(cls.flow(visitor) + query, fields | others, note=note)

    def visits(self, visitor):
        """Sign-ins, in spellings, and steps with a name that is not asked for."""

        def attempt(name, expect, user, password, door="home-assistant", spelling_of=None, **others):
            note = Note(name, expect, user.strip(), door, members=MEMBERS, spelling_of=spelling_of)
            return self.attempt(visitor, user, password, note, **others)

        start = {"client_id": CLIENT, "handler": ["homeassistant", None], "redirect_uri": f"{CLIENT}?auth_callback=1"}
        visitor.json(FLOW, start, note=Note("first-step", "none", members=MEMBERS))
        attempt("wrong-password", "failure", USER, "wrong")
        attempt("unknown-account", "failure", "nobody", "wrong")
        attempt("empty", "failure", "", "")
        attempt("one-field-too-many", "failure", USER, PASSWORD, code="123456", door="home-assistant home-assistant-second")
        attempt("right-password", "success", USER, PASSWORD)
        attempt("spelling-capitals", "success", USER.upper(), PASSWORD, spelling_of=USER)
        attempt("spelling-blanks", "success", f" {USER} ", PASSWORD, spelling_of=USER)
        note = Note("another-name-in-the-address", "success", None, "home-assistant", members=MEMBERS)
        self.attempt(visitor, OTHER, OTHERS_PASSWORD, note, f"?username={USER}")
        path = self.flow(visitor)
        note = Note("step-of-no-flow", "failure", None, "home-assistant-second", members=MEMBERS)
        visitor.json(path, {"client_id": CLIENT, "code": "123456"}, note=note)
