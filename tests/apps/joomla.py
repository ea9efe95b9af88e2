"""Joomla on PHP's own server, before a MariaDB of its own; its source has to be unpacked in target/apps/joomla.

Both forms answer 303, whatever the password.
"""

import re
import shutil
from base64 import b64encode
from contextlib import contextmanager

from environments import PLACE
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, call, running, wait_until
from recording import Note
from wordpress import SETTINGS, database

FORM = "/administrator/index.php"
SITE = "/index.php?option=com_users&view=login"
CODE = "/index.php?option=com_users&view=captive"
API = "/api/index.php/v1/users"
PEOPLE = r"""
$database = new mysqli(null, 'wordpress', getenv('APP_DB_PASSWORD'), 'wordpress', 0, getenv('APP_DB_SOCKET'));
$person = [$argv[1], "$argv[1]@app.example", password_hash($argv[2], PASSWORD_BCRYPT)];
$columns = "name, registerDate, params, username, email, password";
$database->execute_query("INSERT INTO x_users ($columns) VALUES ('x', now(), '{}', ?, ?, ?)", $person);
$person_id = $database->insert_id;
$database->query("INSERT INTO x_user_usergroup_map VALUES ($person_id, 2)");
$record = "user_id, title, method, `default`, options, created_on";
$database->query("INSERT INTO x_user_mfa ($record) VALUES ($person_id, 'x', 'fixed', 1, '{\"fixed_code\":\"1234\"}', now())");
$database->query("UPDATE x_extensions SET enabled = 1 WHERE folder = 'api-authentication' AND element = 'basic'");
$database->query("UPDATE x_extensions SET enabled = 1 WHERE folder = 'multifactorauth' AND element = 'fixed'");
"""


class Joomla:
    """A running site."""

    title = "Joomla"
    preset = "joomla"
    place = "joomla"
    wrong, right, proves, has_accounts = 303, 303, False, True

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """Tables, two accounts and the server, for the length of the block."""
        root = directory / "root"
        shutil.copytree(PLACE / "joomla", root)
        for place in ("tmp", "administrator/cache", "administrator/logs", "images"):
            (root / place).mkdir(parents=True, exist_ok=True)
        php = ["php", *SETTINGS, "-d", f"session.save_path={directory}"]
        with database(directory) as env:
            words = {"site-name": "x", "admin-user": "x", "admin-username": USER, "admin-password": PASSWORD}
            words |= {"admin-email": f"{USER}@app.example", "db-type": "mysqli", "db-encryption": "0", "db-prefix": "x_"}
            words |= {"db-host": f"unix:{env['APP_DB_SOCKET']}", "db-user": "wordpress", "db-name": "wordpress"}
            words |= {"db-pass": env["APP_DB_PASSWORD"]}
            install = [*php, "installation/joomla.php", "install", "-n", *(f"--{key}={word}" for key, word in words.items())]
            call(install, directory / "install.log", cwd=root)
            call([*php, "-r", PEOPLE, OTHER, OTHERS_PASSWORD], directory / "people.log", env)
            shutil.rmtree(root / "installation", ignore_errors=True)
            command = [*php, "-S", "%s:%d" % address, "-t", str(root)]
            with running("php -S", command, directory / "php.log", {"PHP_CLI_SERVER_WORKERS": "2"}) as server:
                wait_until(lambda: accepts(address), server)
                yield cls()

    @classmethod
    def token(cls, visitor, page):
        """The name of the field that every form has."""
        return visitor.keep(cls.page(visitor, page).find('"csrf.token":"([0-9a-f]+)"'))

    @staticmethod
    def page(visitor, path):
        """Where the address leads: search engines want one address of each page."""
        answer = visitor.get(path)
        if answer.status == 301:
            answer = visitor.get("/" + dict(answer.fields)["Location"].split("/", 3)[3])
        return answer

    @classmethod
    def attempt(cls, visitor, user, password, note=None, path=FORM, **others):
        """The form of the administration as the page has it."""
        fields = {"username": user, "passwd": password, "option": "com_login", "task": "login", "return": "aW5kZXgucGhw"}
        return visitor.form(path, fields | {cls.token(visitor, FORM): "1"} | others, note=note)

    def visits(self, visitor):
        """Both forms, in several shapes, codes, forgotten passwords, and the API."""

        def attempt(name, user, password, guest=None, spelling_of=None, **others):
            note = Note(name, "failure", user, "joomla", "", spelling_of)
            return self.attempt(guest or visitor.another(), user, password, note, **others)

        visitor.get(FORM, note=Note("form", "none", shows='name="passwd"'))
        attempt("wrong-password", USER, "wrong")
        attempt("unknown-account", "nobody", "wrong")
        attempt("right-password", USER, PASSWORD)
        attempt("spelling-capitals", USER.upper(), PASSWORD, spelling_of=USER)
        guest = visitor.another()
        guest.get(FORM)
        fields = {"username": USER, "passwd": PASSWORD, "option": "com_login", "task": "login", "x" * 32: "1"}
        guest.form(FORM, fields, note=Note("wrong-token", "failure", USER, "joomla", ""))
        attacker = visitor.another()
        self.site(attacker, OTHER, OTHERS_PASSWORD)
        for name, user, password, guest, options in (
            ("wrong-password-at-the-site", USER, "wrong", visitor.another(), {}),
            ("right-password-at-the-site", USER, PASSWORD, visitor.another(), {}),
            ("right-password-and-remember", USER, PASSWORD, visitor.another(), {"remember": "yes"}),
            ("right-password-elsewhere", USER, PASSWORD, visitor.another(), {"path": "/index.php/component/users/"}),
            ("wrong-password-while-signed-in", USER, "wrong", attacker, {"page": CODE}),
        ):
            self.site(guest, user, password, Note(name, "failure", user, "joomla", ""), **options)
        self.codes(visitor)
        for name, door, task, fields in (
            ("lost-password", "joomla-mail", "reset.request", {"jform[email]": f"{USER}@app.example"}),
            ("lost-name", "joomla-mail", "remind.remind", {"jform[email]": f"{USER}@app.example"}),
            ("registration", "joomla-mail", "registration.register", {"jform[email1]": f"{USER}@app.example"}),
        ):
            guest = visitor.another()
            fields |= {"option": "com_users", "task": task, self.token(guest, SITE): "1"}
            guest.form("/index.php", fields, note=Note(name, "failure", f"{USER}@app.example", door, ""))
        for name, expect, user, password in (
            ("right", "neutral", USER, PASSWORD),
            ("wrong", "failure", USER, "wrong"),
            ("without-rights", "failure", OTHER, OTHERS_PASSWORD),
        ):
            token = b64encode(f"{user}:{password}".encode()).decode()
            headers = {"Authorization": f"Basic {token}", "Accept": "application/vnd.api+json"}
            visitor.another().get(API, headers=headers, note=Note(f"api-{name}", expect, user, "joomla-api", ""))

    @classmethod
    def site(cls, visitor, user, password, note=None, path="/index.php", page=SITE, **others):
        """The form of the site."""
        fields = {"option": "com_users", "task": "user.login", "username": user, "password": password}
        return visitor.form(path, fields | {cls.token(visitor, page): "1"} | others, note=note)

    @classmethod
    def codes(cls, visitor):
        """Of a client that knows the password, in the body and in the address."""
        guest = visitor.another()
        cls.site(guest, OTHER, OTHERS_PASSWORD)
        page = cls.page(guest, CODE)
        path = re.sub("&amp;", "&", page.find('action="([^"]*task=captive.validate[^"]*)"'))
        token = guest.keep(page.find('"csrf.token":"([0-9a-f]+)"'))
        for name, code in (("wrong", "0000"), ("right", "1234")):
            note = Note(f"code-{name}", "failure", None, "joomla-second", "")
            guest.form(path, {"code": code, token: "1"}, note=note)
        guest = visitor.another()
        cls.site(guest, OTHER, OTHERS_PASSWORD)
        token = cls.token(guest, CODE)
        note = Note("code-by-get", "failure", None, "joomla-second", "")
        guest.get(f"{path}&code=0000&{token}=1", note=note)
