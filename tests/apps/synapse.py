"""Synapse from PyPI with SQLite: sign-ins as JSON.

It bounds sign-ins itself, which is turned off here so that every answer is about a password.
"""

import json
from contextlib import contextmanager

from environments import PLACE
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, call, running, wait_until
from recording import Note

VENV = PLACE / "synapse"
FORM = "/_matrix/client/v3/login"
TOKEN = r'"access_token":"([^"]+)'


class Synapse:
    """A running server."""

    title = "Synapse"
    preset = "synapse"

    @classmethod
    @contextmanager
    def start(cls, directory, address, site):
        """Two accounts and the server, for the length of the block."""
        config = directory / "homeserver.yaml"
        config.write_text(json.dumps(settings(directory, address), indent=1))  # every JSON is YAML
        python = str(VENV / "bin" / "python")
        homeserver = [python, "-m", "synapse.app.homeserver", "-c", str(config)]
        call([*homeserver, "--generate-keys"], directory / "keys.log")
        with running("synapse", homeserver, directory / "synapse.log", cwd=directory) as server:
            wait_until(lambda: accepts(address), server)
            for user, password in ((USER, PASSWORD), (OTHER, OTHERS_PASSWORD)):
                register = [str(VENV / "bin" / "register_new_matrix_user"), "-u", user, "-p", password]
                call([*register, "--no-admin", "-c", str(config), site], directory / f"{user}.log")
            yield cls()

    @staticmethod
    def visits(visitor):
        """Sign-ins in today's shape, in the older one, and in broken ones."""

        def attempt(note, user, password, path=FORM, visitor=visitor, **others):
            identifier = {"type": "m.id.user", "user": user}
            value = {"type": "m.login.password", "identifier": identifier, "password": password}
            answer = visitor.json(path, value | {"device_id": "DEVICE"} | others, note=note)
            return answer

        visitor.get(FORM, note=Note("flows", "none"))
        door = "synapse"
        attempt(Note("wrong-password", "failure", USER, door), USER, "wrong")
        attempt(Note("unknown-account", "failure", "nobody", door), "nobody", "wrong")
        attempt(Note("empty", "failure", "", door), "", "")
        attempt(Note("wrong-password-old-path", "failure", USER, door), USER, "wrong", "/_matrix/client/r0/login")
        old = {"type": "m.login.password", "user": USER, "password": "wrong"}
        visitor.json(FORM, old, note=Note("wrong-password-old-shape", "failure", USER, door))
        note = Note("wrong-password-as-text", "failure", USER, door)
        visitor.ask("POST", FORM, json.dumps(old), "text/plain", note=note)
        visitor.form(FORM, {"user": USER}, note=Note("not-json", "failure", None, door))
        Synapse.right(visitor, attempt, door)

    @staticmethod
    def right(visitor, attempt, door):
        """Answers with a token."""
        name = f"@{USER}:app.example"
        for note in (
            Note("right-password", "success", USER, door, hides=TOKEN),
            Note("right-password-full-name", "success", name, door, hides=TOKEN),
            Note("spelling-capitals", "success", USER.upper(), door, hides=TOKEN, spelling_of=USER),
        ):
            attempt(note, note.user, PASSWORD)


def settings(directory, address):
    """One listener, one file of tables, no bounds and no other servers."""
    host, port = address
    plenty = {"per_second": 1000, "burst_count": 1000}
    return {
        "server_name": "app.example",
        "pid_file": f"{directory}/synapse.pid",
        "listeners": [
            {"port": port, "bind_addresses": [host], "type": "http", "tls": False, "resources": [{"names": ["client"]}]}
        ],
        "database": {"name": "sqlite3", "args": {"database": f"{directory}/synapse.db"}},
        "media_store_path": f"{directory}/media",
        "signing_key_path": f"{directory}/signing.key",
        "registration_shared_secret": "a throw-away server",
        "macaroon_secret_key": "a throw-away server",
        "form_secret": "a throw-away server",
        "trusted_key_servers": [],
        "suppress_key_server_warning": True,
        "report_stats": False,
        "rc_login": {"address": plenty, "account": plenty, "failed_attempts": plenty},
    }
