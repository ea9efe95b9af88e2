"""Roundup's classic tracker behind WSGI, for its own server does not run as root."""

import re
from contextlib import contextmanager
from urllib.parse import urlencode

from environments import PLACE, python
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, call, running, wait_until
from recording import Note

FORM = "/"
TOKEN = 'name="@csrf" type="hidden"\\s+value="([^"]+)'
REST = "/rest/data/issue"
SERVER = """
import sys, socketserver
from wsgiref import simple_server
from roundup.cgi.wsgi_handler import RequestDispatcher
class Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True
simple_server.make_server(sys.argv[1], int(sys.argv[2]), RequestDispatcher(sys.argv[3]), Server).serve_forever()
"""


class Roundup:
    """A running tracker."""

    title = "Roundup"
    preset = "roundup"
    place = "roundup"
    wrong, right, proves, has_accounts = 302, 302, False, True

    @classmethod
    @contextmanager
    def start(cls, directory, address, site):
        """A tracker with two accounts and the server, for the length of the block."""
        home, admin = directory / "tracker", python("roundup", "roundup-admin")
        call([admin, "-i", str(home), "install", "classic", "sqlite"], directory / "install.log")
        config = (home / "config.ini").read_text()
        for key, value in {"web": f"{site}/", "domain": "app.example", "login_attempts_min": "0"}.items():
            config, _ = re.subn(rf"(?m)^#?{key} = .*$", f"{key} = {value}", config)
        (home / "config.ini").write_text(config)
        call([admin, "-i", str(home), "initialise", "made-up"], directory / "initialise.log")
        for user, password in ((USER, PASSWORD), (OTHER, OTHERS_PASSWORD)):
            words = [f"username={user}", f"password={password}", f"address={user}@app.example", "roles=User"]
            call([admin, "-i", str(home), "create", "user", *words], directory / f"{user}.log")
        mails = {"SENDMAILDEBUG": str(directory / "mails")}
        command = [python("roundup"), "-c", SERVER, address[0], str(address[1]), str(home)]
        with running("roundup", command, directory / "server.log", mails) as server:
            wait_until(lambda: accepts(address), server)
            yield cls()

    @staticmethod
    def attempt(visitor, user, password, note=None, path=FORM, **others):
        """The form of each page."""
        page = visitor.get(FORM)
        fields = {"__login_name": user, "__login_password": password, "@action": "Login"}
        fields["@csrf"] = visitor.keep(page.find(TOKEN))
        fields["__came_from"] = f"http://{visitor.address[0]}:{visitor.address[1]}{FORM}"
        return visitor.form(path, fields | others, note=note)

    def visits(self, visitor):
        """The form, Basic, and messages."""

        def attempt(name, user, password, guest=None, path=FORM, **others):
            note = Note(name, "failure", user, "roundup", "")
            return self.attempt(guest or visitor.another(), user, password, note, path, **others)

        visitor.get(FORM, note=Note("form", "none", shows='name="__login_name"'))
        attempt("wrong-password", USER, "wrong")
        attempt("unknown-account", "nobody", "wrong")
        attempt("capitals-are-another-account", USER.upper(), PASSWORD)
        attempt("wrong-token", USER, PASSWORD, **{"@csrf": "x"})
        attempt("right-password", USER, PASSWORD)
        attempt("right-password-and-remember", USER, PASSWORD, remember="1")
        attempt("right-password-elsewhere", USER, PASSWORD, path="/user")
        guest = visitor.another()
        token = guest.keep(guest.get(FORM).find(TOKEN))
        fields = {"__login_name": USER, "__login_password": PASSWORD, "@action": "login", "@csrf": token}
        note = Note("right-password-in-the-address", "failure", USER, "roundup", "")
        guest.form(f"{FORM}?{urlencode(fields)}", {}, note=note)
        attacker = visitor.another()
        self.attempt(attacker, OTHER, OTHERS_PASSWORD)
        note = Note("wrong-password-while-signed-in", "failure", USER, "roundup", "")
        token = attacker.keep(attacker.get("/issue?@template=item").find(TOKEN))
        fields = {"__login_name": USER, "__login_password": "wrong", "@action": "login", "@csrf": token}
        attacker.form(FORM, fields, note=note)
        for name, path, expect, password in (
            ("right", REST, "neutral", PASSWORD),
            ("wrong", REST, "failure", "wrong"),
            ("wrong-for-a-page", FORM, "failure", "wrong"),
        ):
            visitor.another().basic(path, USER, password, note=Note(f"basic-{name}", expect, USER, "roundup-api", ""))
        note = Note("lost-password", "failure", USER, "roundup-mail", "")
        visitor.another().get(f"{FORM}user?@action=passrst&username={USER}", note=note)
