"""Wagtail from PyPI on Django's own server, as its own command starts a site: the editors' form, and a password of a page."""

from contextlib import contextmanager

from environments import python
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, call, running, wait_until
from recording import Note

FORM = "/admin/login/"
PEOPLE = """
from django.contrib.auth.models import User
for name, password in {people}:
    User.objects.create_superuser(name, f"{{name}}@app.example", password)
from wagtail.models import Page, PageViewRestriction
home = Page.objects.get(slug="home")
PageViewRestriction.objects.create(page=home, restriction_type="password", password={password!r})
print(home.pk, PageViewRestriction.objects.get().pk)
"""


class Wagtail:
    """A running site; `page` is where its password is sent to."""

    title = "Wagtail"
    preset = "wagtail"
    place = "wagtail"
    wrong, right, proves, has_accounts = 200, 302, True, True

    def __init__(self, page):
        self.page = page

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """A new site with two accounts and one password for its home page, for the length of the block."""
        site = directory / "site"
        site.mkdir()
        call([python("wagtail", "wagtail"), "start", "website", str(site)], directory / "start.log")
        (site / "website" / "settings" / "local.py").write_text("ALLOWED_HOSTS = ['*']\nSECRET_KEY = 'a throw-away server'\n")
        env = {"PYTHONDONTWRITEBYTECODE": "1"}
        manage = [python("wagtail"), str(site / "manage.py")]
        call([*manage, "migrate", "--verbosity", "0"], directory / "migrate.log", env, site)
        people = PEOPLE.format(people=((USER, PASSWORD), (OTHER, OTHERS_PASSWORD)), password=PASSWORD)
        said = call([*manage, "shell", "-c", people], directory / "people.log", env, site)
        page, restriction = said.split()[-2:]
        command = [*manage, "runserver", "--noreload", "%s:%d" % address]
        with running("wagtail", command, directory / "wagtail.log", env, site) as server:
            wait_until(lambda: accepts(address), server)
            yield cls(f"/_util/authenticate_with_password/{restriction}/{page}/")

    @staticmethod
    def form(visitor, path, fields, note=None):
        """A form of the site, with its token."""
        if "csrftoken" not in visitor.cookies:
            visitor.get(FORM)
        token = {"csrfmiddlewaretoken": visitor.keep(visitor.cookies["csrftoken"])}
        return visitor.form(path, token | fields, note=note)

    @classmethod
    def attempt(cls, visitor, user, password, note=None, **others):
        """The form as the page has it."""
        return cls.form(visitor, FORM, {"username": user, "password": password, "next": "/admin/"} | others, note)

    def visits(self, visitor):
        """The form, lost passwords, and the password of a page."""

        def attempt(name, expect, user, password, visitor=visitor, shows="", **others):
            return self.attempt(visitor, user, password, Note(name, expect, user, "wagtail", shows), **others)

        wrong = "Your username and password"
        visitor.get(FORM, note=Note("form", "none", shows='name="password"'))
        attempt("wrong-password", "failure", USER, "wrong", shows=wrong)
        attempt("unknown-account", "failure", "nobody", "wrong", shows=wrong)
        attempt("empty", "failure", "", "")
        attempt("wrong-token", "failure", USER, PASSWORD, csrfmiddlewaretoken="x" * 64)
        attempt("capitals-are-another-account", "failure", USER.upper(), PASSWORD, shows=wrong)
        attempt("right-password", "success", USER, PASSWORD)
        attempt("right-password-and-remember", "success", USER, PASSWORD, visitor.another(), remember="on")
        attacker = visitor.another()
        self.attempt(attacker, OTHER, OTHERS_PASSWORD)
        attempt("wrong-password-while-signed-in", "failure", USER, "wrong", attacker, wrong)
        query = f"{FORM}?username={USER}&password=wrong"
        attacker.get(query, note=Note("asked-for-while-signed-in", "failure", USER, "wagtail", ""))
        for name, password in (("wrong", "wrong"), ("right", PASSWORD)):
            fields = {"password": password, "return_url": "/"}
            self.form(visitor.another(), self.page, fields, Note(f"page-{name}", "failure", None, "wagtail-page", ""))
        mail = f"{USER}@app.example"
        note = Note("lost-password", "failure", mail, "wagtail-mail", "")
        self.form(visitor.another(), "/admin/password_reset/", {"email": mail}, note)
        self.form(visitor, "/admin/logout/", {}, Note("sign-out", "none", shows=""))
