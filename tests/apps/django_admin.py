"""Django's admin on its own server, with a database in one file.

A wrong password is answered 200, a right one 302 with the cookie of a session.
"""

from contextlib import contextmanager
from pathlib import Path

from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, call, running, wait_until
from recording import Note

SITE = Path(__file__).parent / "django_admin"
PYTHON = "/usr/bin/python3"  # the one that Debian's packages are for
FORM = "/admin/login/"


class DjangoAdmin:
    """A running site."""

    title = "Django admin"
    preset = "django-admin"

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site, attempts=None, python=PYTHON, gunicorn=False):
        """Tables, two accounts and the server, for the length of the block; `attempts` is a file to log them in."""
        env = {"PYTHONDONTWRITEBYTECODE": "1", "APP_DATABASE": str(directory / "db.sqlite")}
        env |= {"APP_ATTEMPTS": str(attempts)} if attempts else {}
        manage = [python, str(SITE / "manage.py")]
        call([*manage, "prepare", USER, PASSWORD, OTHER, OTHERS_PASSWORD], directory / "prepare.log", env)
        command = [*manage, "runserver", "--noreload", "%s:%d" % address]
        if gunicorn:
            command = [python, "-m", "gunicorn", "-w", "2", "--threads", "4", "-b", "%s:%d" % address]
            command += ["--chdir", str(SITE), "manage:application"]
        with running("django", command, directory / "django.log", env) as server:
            wait_until(lambda: accepts(address), server)
            yield cls()

    @staticmethod
    def visits(visitor):
        """Sign-ins with the form's token and with others."""

        def token(visitor):
            if "csrftoken" not in visitor.cookies:  # a signed-in client does not see the form again
                visitor.get(FORM)
            return visitor.keep(visitor.cookies["csrftoken"])

        def attempt(note, user, password, visitor=visitor, **others):
            fields = {"csrfmiddlewaretoken": token(visitor), "username": user, "password": password, "next": "/admin/"}
            return visitor.form(FORM, fields | others, note=note)

        visitor.get(FORM, note=Note("form", "none", shows="Log in"))
        door, wrong = "django-admin", "Please enter the correct"
        attempt(Note("wrong-password", "failure", USER, door, wrong), USER, "wrong")
        attempt(Note("unknown-account", "failure", "nobody", door, wrong), "nobody", "wrong")
        attempt(Note("empty", "failure", "", door, "This field is required"), "", "")
        attempt(Note("wrong-token", "failure", USER, door), USER, PASSWORD, csrfmiddlewaretoken="x" * 64)
        visitor.another().form(
            FORM, {"username": USER, "password": PASSWORD}, note=Note("without-token", "failure", USER, door)
        )
        attempt(Note("right-password", "success", USER, door), USER, PASSWORD)
        attacker = visitor.another()
        attempt(None, OTHER, OTHERS_PASSWORD, attacker)
        attempt(Note("wrong-password-while-signed-in", "failure", USER, door, wrong), USER, "wrong", attacker)
        visitor.get("/admin/logout/", note=Note("sign-out", "none"))
