"""Flask-Security from PyPI on Flask's own server: a form that takes JSON as well, codes, and Basic."""

from contextlib import contextmanager
from pathlib import Path

from environments import python
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, running, wait_until
from recording import Note

SITE = Path(__file__).parent / "flask_security_forms" / "app.py"
FORM, UNIFIED = "/login", "/us-signin"
CAREFUL = "grace"  # has a second factor


class FlaskSecurity:
    """A running site."""

    title = "Flask-Security"
    preset = "flask-security"
    place = "flask-security"
    wrong, right, proves, has_accounts = 200, 302, False, True

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """Three accounts and the server, for the length of the block."""
        people = ((USER, PASSWORD), (OTHER, OTHERS_PASSWORD), (CAREFUL, PASSWORD))
        words = [word for user, password in people for word in (mail_of(user), password)]
        command = [python("flask-security"), "-B", str(SITE), address[0], str(address[1]), *words]
        with running("flask", command, directory / "flask.log") as server:
            wait_until(lambda: accepts(address), server)
            yield cls()

    @staticmethod
    def attempt(visitor, user, password, note=None, **others):
        """The form."""
        return visitor.form(FORM, {"email": user if "@" in user else mail_of(user), "password": password} | others, note=note)

    def visits(self, visitor):
        """The forms, the same as JSON, and what comes after a right password."""

        def attempt(name, expect, user, password, visitor=visitor, shows="", spelling_of=None):
            mail = spelling_of and user or mail_of(user)
            note = Note(name, expect, mail, "flask-security", shows, spelling_of and mail_of(spelling_of))
            return self.attempt(visitor, mail, password, note)

        visitor.get(FORM, note=Note("form", "none", shows='name="password"'))
        attempt("wrong-password", "failure", USER, "wrong", shows="Invalid password")
        attempt("unknown-account", "failure", "nobody", "wrong", shows="does not exist")
        attempt("right-password", "failure", USER, PASSWORD)
        attempt("spelling-capitals", "failure", mail_of(USER).upper(), PASSWORD, visitor.another(), spelling_of=USER)
        attacker = visitor.another()
        self.attempt(attacker, OTHER, OTHERS_PASSWORD)
        attempt("wrong-password-while-signed-in", "failure", USER, "wrong", attacker)
        # The session is gone, and a client that is remembered gets another one for any password.
        remembered = visitor.another()
        self.attempt(remembered, OTHER, OTHERS_PASSWORD, remember="y")
        remembered.cookies.pop("session")
        attempt("wrong-password-while-remembered", "failure", USER, "wrong", remembered)
        self.json(visitor.another(), attacker)
        self.second(visitor.another())
        self.mails(visitor.another())
        self.basic(visitor.another())
        visitor.form("/logout", {}, note=Note("sign-out", "none", shows=""))

    @staticmethod
    def json(visitor, attacker):
        """Both addresses, as scripts ask."""
        for path, user, password, door in ((FORM, "email", "password", "json"), (UNIFIED, "identity", "passcode", "unified")):
            for name, given, expect in (("wrong", "wrong", "failure"), ("right", PASSWORD, "success")):
                ask(visitor.another(), path, {user: mail_of(USER), password: given}, f"{door}-{name}", expect)
            ask(attacker, path, {user: mail_of(USER), password: "wrong"}, f"{door}-wrong-while-signed-in", "failure")
        ask(visitor, FORM, {"username": USER, "password": "wrong"}, "json-wrong-of-a-name", "failure", USER)

    def second(self, visitor):
        """The right password of who has a second factor leads to it."""
        ask(visitor, FORM, {"email": mail_of(CAREFUL), "password": PASSWORD}, "json-before-a-code", "success", mail_of(CAREFUL))
        note = Note("wrong-code", "failure", None, "flask-security-second", "")
        visitor.form("/tf-validate", {"code": "000000"}, note=note)

    @staticmethod
    def mails(visitor):
        """What makes the site write to somebody, or would."""
        for name, path, fields in (
            ("lost-password", "/reset", {"email": mail_of(USER)}),
            ("code-by-mail", "/us-signin/send-code", {"identity": mail_of(USER), "chosen_method": "email"}),
            ("sign-up", "/register", {"email": mail_of(USER), "password": PASSWORD}),
        ):
            visitor.form(path, fields, note=Note(name, "failure", mail_of(USER), "flask-security-mail", ""))

    @staticmethod
    def basic(visitor):
        """Where a view asks for it."""
        door = "flask-security-basic"
        for name, page, password, expect in (
            ("basic-right", "/by-basic", PASSWORD, "neutral"),
            ("basic-wrong", "/by-basic", "wrong", "failure"),
            ("basic-wrong-elsewhere", FORM, "wrong", "neutral"),
        ):
            visitor.basic(page, mail_of(USER), password, note=Note(name, expect, mail_of(USER), door, ""))


def ask(visitor, path, fields, name, expect, user=None):
    """A sign-in as JSON."""
    members = ("/meta/code", "/response/errors", "/response/user", "/response/tf_required")
    note = Note(name, expect, user or mail_of(USER), "flask-security", members=members)
    visitor.json(path, fields, headers={"Accept": "application/json"}, note=note)


def mail_of(user):
    """The address that is the account's name."""
    return f"{user}@app.example"
