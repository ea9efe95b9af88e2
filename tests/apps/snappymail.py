"""SnappyMail on PHP's own server, with a Dovecot of its own; its source has to be unpacked in target/apps/snappymail.

All its answers are 200.
"""

import json
import shutil
from contextlib import contextmanager

from environments import PLACE
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, free_address, running, wait_until
from recording import Note
from roundcube import dovecot
from wordpress import SETTINGS

FORM = "/?/Json/&q[]=/0/"
MEMBERS = ("/Action", "/Result", "/Result/Auth", "/code")


class SnappyMail:
    """A running site."""

    title = "SnappyMail"
    preset = "snappymail"
    place = "snappymail"
    wrong, right, proves, has_accounts = 200, 200, True, True

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """Mail server and the server, for the length of the block."""
        mail, root = free_address(), directory / "root"
        shutil.copytree(PLACE / "snappymail", root, ignore_dangling_symlinks=True)
        domain = json.loads((root / "snappymail/v/0.0.0/app/domains/default.json").read_text())
        domain["IMAP"] |= {"host": mail[0], "port": mail[1], "shortLogin": True, "sasl": ["PLAIN", "LOGIN"]}
        domains = root / "data" / "_data_" / "_default_" / "domains"
        domains.mkdir(parents=True)
        (domains / "app.example.json").write_text(json.dumps(domain))
        command = ["php", *SETTINGS, "-d", f"session.save_path={directory}", "-S", "%s:%d" % address, "-t", str(root)]
        with dovecot(directory, mail), running("php -S", command, directory / "php.log") as server:
            wait_until(lambda: accepts(address), server)
            yield cls()

    @staticmethod
    def attempt(visitor, user, password, note=None, path=FORM, token=None, **others):
        """What its page sends."""
        mail = user if "@" in user else mail_of(user)
        known = visitor.get("/?/AppData/0/").find('"token":"([^"]+)')
        fields = {"Action": "Login", "Email": mail, "Password": password} | others
        headers = {"X-SM-Token": visitor.keep(token or known)}
        return visitor.ask("POST", path, json.dumps(fields), "application/json", headers, note)

    def visits(self, visitor):
        """Sign-ins in several shapes, and what a signed-in client can do."""

        def attempt(name, expect, user, password, visitor=None, spelling_of=None, **others):
            mail = mail_of(user)
            note = Note(name, expect, mail, "snappymail", spelling_of=spelling_of and mail_of(spelling_of), members=MEMBERS)
            return self.attempt(visitor or first.another(), mail, password, note, **others)

        first = visitor
        visitor.get("/?/AppData/0/", note=Note("form", "none", shows=""))
        attempt("wrong-password", "failure", USER, "wrong")
        attempt("unknown-account", "failure", "nobody", "wrong")
        attempt("wrong-token", "failure", USER, PASSWORD, token="x" * 40)
        attempt("right-password", "success", USER, PASSWORD, visitor)
        attempt("right-password-and-remember", "success", USER, PASSWORD, signMe=1)
        attempt("spelling-capitals", "success", USER.upper(), PASSWORD, spelling_of=USER)
        attempt("other-letters-of-the-address", "success", USER, PASSWORD, path="/?/JSON@x/0/Login")
        note = Note("without-a-token-by-get", "success", mail_of(USER), "snappymail", members=MEMBERS)
        fields = json.dumps({"Action": "Login", "Email": mail_of(USER), "Password": PASSWORD})
        visitor.another().ask("GET", "/?/Json/0/Login", fields, "application/json", note=note)
        attacker = visitor.another()
        self.attempt(attacker, OTHER, OTHERS_PASSWORD, signMe=1)
        attempt("wrong-password-while-signed-in", "failure", USER, "wrong", attacker)
        attacker = visitor.another()
        self.attempt(attacker, OTHER, OTHERS_PASSWORD, signMe=1)
        attacker.cookies.pop("smaccount", None)
        attempt("wrong-password-while-remembered", "failure", USER, "wrong", attacker)


def mail_of(user):
    """The account's name."""
    return f"{user}@app.example"
