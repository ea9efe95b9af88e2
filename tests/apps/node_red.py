"""Node-RED from npm: a token of its API for a name and a password, and Basic on the paths of its flows."""

import json
from contextlib import contextmanager

from environments import PLACE, npm
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, call, running, wait_until
from recording import Note

FORM = "/auth/token"
HASH = "console.log(require('bcryptjs').hashSync(process.argv[1], 8))"
FLOWS = [
    {"id": "tab", "type": "tab", "label": "one"},
    {"id": "in", "type": "http in", "z": "tab", "url": "/flow", "method": "get", "wires": [["out"]]},
    {"id": "out", "type": "http response", "z": "tab", "wires": []},
]


class NodeRed:
    """A running server."""

    title = "Node-RED"
    preset = "node-red"
    place = "node-red"
    wrong, right, proves, has_accounts = 403, 200, True, True

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """Two accounts, one flow and the server, for the length of the block."""
        modules = {"NODE_PATH": str(PLACE / "node-red" / "node_modules")}
        people = [
            {"username": user, "password": call(["node", "-e", HASH, password], directory / f"{user}.log", modules).strip()}
            for user, password in ((USER, PASSWORD), (OTHER, OTHERS_PASSWORD))
        ]
        host, port = address
        settings = {
            "uiHost": host,
            "uiPort": port,
            "flowFile": "flows.json",
            "httpNodeAuth": {"user": USER, "pass": people[0]["password"]},
            "adminAuth": {"type": "credentials", "users": [{**person, "permissions": "*"} for person in people]},
        }
        (directory / "flows.json").write_text(json.dumps(FLOWS))
        (directory / "settings.js").write_text(f"module.exports = {json.dumps(settings)}")
        command = [npm("node-red", "node-red"), "-u", str(directory), "-s", str(directory / "settings.js")]
        with running("node-red", command, directory / "node-red.log") as server:
            wait_until(lambda: accepts(address) and "Started flows" in (directory / "node-red.log").read_text(), server)
            yield cls()

    @staticmethod
    def attempt(visitor, user, password, note=None, as_json=False, **others):
        """What the editor sends."""
        fields = {"client_id": "node-red-editor", "grant_type": "password", "scope": ""}
        fields |= {"username": user, "password": password} | others
        return (visitor.json if as_json else visitor.form)(FORM, fields, note=note)

    def visits(self, visitor):
        """Tokens for passwords in every shape, and Basic. It judges five attempts at one name in ten minutes, no more."""

        def attempt(name, expect, user, password, **others):
            hides = r'"access_token":"([^"]+)' if expect == "success" else None
            note = Note(name, expect, user if isinstance(user, str) else None, "node-red", hides=hides)
            return self.attempt(visitor, user, password, note, **others)

        visitor.get("/auth/login", note=Note("form", "none"))
        attempt("wrong-password", "failure", USER, "wrong")
        attempt("wrong-password-as-json", "failure", USER, "wrong", as_json=True)
        attempt("wrong-client", "failure", USER, "wrong", client_id="x")
        attempt("unknown-account", "failure", "nobody", "wrong")
        attempt("empty", "failure", "", "")
        attempt("right-password", "success", USER, PASSWORD)
        attempt("right-password-as-json", "success", USER, PASSWORD, as_json=True)
        # The account is looked up by the member of the name, and the application's own count is of whole names.
        attempt("name-in-a-name", "failure", {"username": OTHER}, "wrong", as_json=True)
        attempt("name-in-a-name-right", "success", {"username": OTHER}, OTHERS_PASSWORD, as_json=True)
        fields = {"client_id": "node-red-editor", "grant_type": "password", "username[username]": OTHER, "password": "wrong"}
        visitor.form(FORM, fields, note=Note("name-in-a-name-of-a-form", "failure", OTHER, "node-red"))
        for _ in range(5):
            self.attempt(visitor, "locked", "wrong")
        attempt("too-many-attempts", "failure", "locked", "wrong")
        self.basic(visitor.another())

    @staticmethod
    def basic(visitor):
        """A flow wants a password, the editor's page none."""
        door = "node-red-basic"
        visitor.basic("/flow", USER, PASSWORD, note=Note("basic-right", "neutral", USER, door))
        visitor.basic("/flow", USER, "wrong", note=Note("basic-wrong", "failure", USER, door))
        visitor.basic("/red/about", USER, "wrong", note=Note("basic-wrong-elsewhere", "neutral", USER, door, ""))
        visitor.get("/flow", note=Note("basic-none", "none"))
