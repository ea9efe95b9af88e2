"""django-allauth from PyPI on Django's own server: a form, an API, codes of a second factor and by mail, passkeys, devices."""

import json
import subprocess
from base64 import urlsafe_b64encode
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from environments import python
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, call, running, wait_until
from recording import Note

SITE = Path(__file__).parent / "allauth_forms" / "manage.py"
FORM = "/accounts/login/"
API = "/_allauth/app/v1/auth/login"
CAREFUL = "grace"  # has a second factor
KEEPER = "heidi"  # has a passkey
CODE = "/accounts/2fa/authenticate/"
PASSKEY = "/accounts/2fa/webauthn/login/"
DEVICE = "/identity/o/device"


class Allauth:
    """A running site."""

    title = "django-allauth"
    preset = "allauth"
    place = "allauth"
    wrong, right, proves, has_accounts = 200, 302, True, True

    def __init__(self, secret):
        self.secret = secret

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """Tables, four accounts and the server, for the length of the block."""
        env = {"PYTHONDONTWRITEBYTECODE": "1", "APP_DATABASE": str(directory / "db.sqlite")}
        manage = [python("allauth"), str(SITE)]
        people = ((USER, PASSWORD), (OTHER, OTHERS_PASSWORD), (KEEPER, PASSWORD), (CAREFUL, PASSWORD))
        words = [word for user, password in people for word in (user, password, mail_of(user))]
        call([*manage, "prepare", *words], directory / "prepare.log", env)
        command = [*manage, "runserver", "--noreload", "%s:%d" % address]
        with running("allauth", command, directory / "allauth.log", env) as server:
            wait_until(lambda: accepts(address), server)
            yield cls(directory / "passkey.pem")

    @staticmethod
    def form(visitor, path, fields, note=None, headers=None):
        """A form of the site, with its token."""
        if "csrftoken" not in visitor.cookies:
            visitor.get(FORM)
        token = {"csrfmiddlewaretoken": visitor.keep(visitor.cookies["csrftoken"])}
        return visitor.form(path, token | fields, note=note, headers=headers)

    @classmethod
    def attempt(cls, visitor, user, password, note=None, headers=None, **others):
        """The form as the page has it."""
        return cls.form(visitor, FORM, {"login": user, "password": password} | others, note, headers)

    def visits(self, visitor):
        """The form, the API, and what comes after a right password."""

        def attempt(name, expect, user, password, visitor=visitor, shows="", spelling_of=None, members=(), **others):
            note = Note(name, expect, user.strip(), "allauth", shows, spelling_of, members=members)
            return self.attempt(visitor, user, password, note, **others)

        wrong = "are not correct"
        visitor.get(FORM, note=Note("form", "none", shows='name="login"'))
        attempt("wrong-password", "failure", USER, "wrong", shows=wrong)
        attempt("unknown-account", "failure", "nobody", "wrong", shows=wrong)
        attempt("empty", "failure", "", "", shows="This field is required")
        attempt("wrong-token", "failure", USER, PASSWORD, csrfmiddlewaretoken="x" * 64)
        as_xhr = {"X-Requested-With": "XMLHttpRequest"}
        attempt("wrong-password-by-script", "failure", USER, "wrong", members=("/location", "/form"), headers=as_xhr)
        attempt("right-password-by-script", "success", USER, PASSWORD, visitor.another(), members=("/location", "/form"), headers=as_xhr)
        attempt("right-password", "success", USER, PASSWORD)
        for name, spelling in {"capitals": USER.upper(), "blanks": f" {USER} "}.items():
            attempt(f"spelling-{name}", "success", spelling, PASSWORD, visitor.another(), spelling_of=USER)
        attempt("mail-for-a-name", "success", mail_of(USER), PASSWORD, visitor.another())
        attacker = visitor.another()
        self.attempt(attacker, OTHER, OTHERS_PASSWORD)
        attempt("wrong-password-while-signed-in", "failure", USER, "wrong", attacker)
        self.second(visitor.another())
        self.api(visitor.another())
        self.mails(visitor.another(), attacker)
        self.passkeys(visitor)
        self.elsewhere(visitor.another())
        self.devices(visitor.another(), attacker)
        self.form(visitor, "/accounts/logout/", {}, Note("sign-out", "none", shows=""))

    def second(self, visitor):
        """The right password of who has a second factor leads to it."""
        self.attempt(visitor, CAREFUL, PASSWORD, Note("right-password-before-a-code", "success", CAREFUL, "allauth", ""))
        note = Note("wrong-code", "failure", None, "allauth-second", "Incorrect code")
        self.form(visitor, CODE, {"code": "000000"}, note)
        note = Note("wrong-password-before-a-code", "failure", USER, "allauth", "")
        self.attempt(visitor, USER, "wrong", note)
        cookies = {"X-CSRFToken": visitor.keep(visitor.cookies["csrftoken"])}
        note = api_note("wrong-password-before-a-code", "failure", USER)
        visitor.json(API.replace("app", "browser"), {"username": USER, "password": "wrong"}, headers=cookies, note=note)

    @staticmethod
    def api(visitor):
        """As an app asks: without cookies."""

        def ask(name, expect, user, password, **fields):
            return visitor.json(API, {"password": password} | (fields or {"username": user}), note=api_note(name, expect, user))

        ask("wrong-password", "failure", USER, "wrong")
        ask("wrong-password-of-a-mail", "failure", mail_of(USER), "wrong", email=mail_of(USER))
        ask("unknown-account", "failure", "nobody", "wrong")
        ask("right-password", "success", USER, PASSWORD)
        ask("before-a-code", "neutral", CAREFUL, PASSWORD)

    def mails(self, visitor, attacker):
        """What makes the site write to somebody."""

        def ask(name, path, fields, shows=""):
            self.form(visitor.another(), path, fields, Note(name, "failure", mail_of(USER), "allauth-mail", shows))

        ask("lost-password", "/accounts/password/reset/", {"email": mail_of(USER)})
        ask("code-by-mail", "/accounts/login/code/", {"email": mail_of(USER)})
        fields = {"email": mail_of(USER), "username": USER, "password1": PASSWORD, "password2": PASSWORD}
        ask("sign-up", "/accounts/signup/", fields)
        note = Note("api-lost-password", "failure", mail_of(USER), "allauth-mail", members=("/status",))
        visitor.json("/_allauth/app/v1/auth/password/request", {"email": mail_of(USER)}, note=note)
        note = Note("password-again", "failure", None, "allauth-second", "")
        self.form(attacker, "/accounts/reauthenticate/", {"password": "wrong"}, note)


    def elsewhere(self, visitor):
        """The way to another site's accounts is a path below that of the form, and a new session."""
        hides = r"state=(\w+)"
        note = Note("sign-in-elsewhere", "neutral", None, "allauth-elsewhere", "", hides=hides)
        self.form(visitor, "/accounts/google/login/", {"login": USER}, note)

    def passkeys(self, visitor):
        """A passkey beside the password: a right one, a wrong one, and one that comes with another's name."""
        by_script, others = {"X-Requested-With": "XMLHttpRequest"}, {"login": USER}
        visitor.another().get(PASSKEY, headers=by_script, note=Note("passkey-challenge", "none", shows=""))
        for name, expect, right, fields in (
            ("wrong-passkey", "failure", False, {}),
            ("right-passkey", "success", True, {}),
            ("right-passkey-with-anothers-name", "success", True, others),
        ):
            client = visitor.another()
            client.get(FORM)
            challenge = client.get(PASSKEY, headers=by_script).json("request_options", "publicKey", "challenge")
            credential = client.keep(json.dumps(self.signed(client, challenge if right else "AAAA")))
            self.form(client, PASSKEY, {"credential": credential} | fields, Note(name, expect, None, "allauth-passkey", ""))
        for client in ("app", "browser"):
            api = f"/_allauth/{client}/v1/auth/webauthn/login"
            note = Note(f"{client}-wrong-passkey", "failure", None, "allauth-passkey", members=("/status", "/errors"))
            asks = visitor.another()
            asks.get(FORM)
            headers = {"X-CSRFToken": asks.keep(asks.cookies["csrftoken"])}
            credential = self.signed(asks, "AAAA")
            for field in ("authenticatorData", "clientDataJSON", "signature"):
                asks.keep(credential["response"][field])
            asks.json(api, {"credential": credential}, headers=headers, note=note)

    def signed(self, client, challenge):
        """What a browser sends: the challenge, signed."""
        told = sha256(client.address[0].encode()).digest() + bytes([0x05, 0, 0, 0, 1])
        origin = "http://%s:%d" % client.address
        said = json.dumps({"type": "webauthn.get", "challenge": challenge, "origin": origin}).encode()
        command = ["openssl", "dgst", "-sha256", "-sign", str(self.secret)]
        signature = subprocess.run(command, input=told + sha256(said).digest(), capture_output=True, check=True).stdout
        response = {"authenticatorData": told, "clientDataJSON": said, "signature": signature, "userHandle": self.handle}
        response = {field: encoded(value) for field, value in response.items()}
        return {"id": encoded(b"k" * 32), "rawId": encoded(b"k" * 32), "type": "public-key", "response": response}

    handle = b"3"  # of the third account

    def devices(self, visitor, signed_in):
        """A screen asks for a code, and who is signed in types it."""
        ask = {"client_id": "tv", "scope": "openid"}
        note = Note("device-code", "neutral", None, "allauth-codes", members=("/interval",))
        code = visitor.form("/identity/o/api/device/code", ask, note=note).json("user_code")
        note = Note("device-code-of-nobody", "failure", None, "allauth-codes", members=("/error",))
        visitor.form("/identity/o/api/device/code", ask | {"client_id": "x"}, note=note)
        visitor.get(f"{DEVICE}?code=WRONG", note=Note("device-while-signed-out", "neutral", None, "allauth-device", ""))
        signed_in.get(DEVICE, note=Note("device-form", "none", shows="one-time-code"))
        note = Note("wrong-code-of-a-device", "failure", None, "allauth-device", "Incorrect code")
        signed_in.get(f"{DEVICE}?code=WRONG", note=note)
        path = f"{DEVICE}?code={signed_in.keep(code)}"
        signed_in.get(path, note=Note("right-code-of-a-device", "failure", None, "allauth-device", "Confirm Device"))
        note = Note("device-confirmed", "failure", None, "allauth-device", "Device Authorized")
        self.form(signed_in, path, {"action": "confirm"}, note)


def encoded(value):
    """As WebAuthn has it in JSON."""
    return urlsafe_b64encode(value).decode().rstrip("=")


def api_note(name, expect, user):
    """What is kept of the API's long answers."""
    return Note(f"api-{name}", expect, user, "allauth-api", members=("/status", "/data/user", "/data/flows", "/errors"))


def mail_of(user):
    """An address of that account."""
    return f"{user}@app.example"
