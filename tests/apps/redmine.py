"""Redmine from Debian on Puma, with a database in one file.

A wrong password is answered 200, a right one is redirected with the cookie of a new session.
"""

import json
import secrets
import shutil
from contextlib import contextmanager

from environments import PLACE
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, call, running, wait_until
from recording import Note

FORM = "/login"
ADAPTERS = "Dir['/usr/share/redmine/{config,instances/*/config}/database.yml']"
PEOPLE = """
require_relative 'config/environment'
JSON.parse(ENV['APP_PEOPLE']).each do |name, password|
  person = User.new(firstname: name, lastname: name, mail: "#{name}@app.example", language: 'en', admin: true)
  person.login = name
  person.password = password
  person.save!
end
Setting.rest_api_enabled = '1'
Setting.self_registration = '1'
run RedmineApp::Application
"""


class Redmine:
    """A running site."""

    title = "Redmine"
    preset = "redmine"
    place = "redmine"
    wrong, right, proves, has_accounts = 200, 302, True, True

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """Tables, two accounts and the server, for the length of the block."""
        unpacked, root = PLACE / "redmine", directory / "root"
        links = shutil.ignore_patterns("database.yml", "Gemfile.lock", "instances", "javascripts")
        shutil.copytree(unpacked / "usr/share/redmine", root, ignore=links)
        for place in ("config", "tmp", "log", "files"):
            (root / "instances" / "default" / place).mkdir(parents=True)
        config, base = root / "instances" / "default" / "config", directory / "db.sqlite"
        (config / "database.yml").write_text(f"production: {{adapter: sqlite3, database: {base}}}\n")
        (config / "secret_key.txt").write_text(secrets.token_hex(64))
        gems = root / "Gemfile"
        gems.write_text(gems.read_text().replace(ADAPTERS, f"Dir['{config}/database.yml']"))
        (root / "config.ru").write_text(PEOPLE)
        people = json.dumps({USER: PASSWORD, OTHER: OTHERS_PASSWORD})
        env = {"RAILS_ENV": "production", "APP_PEOPLE": people, "RUBYOPT": "-W0"}
        tables = unpacked / "tables.sqlite"  # made once: it takes ten seconds
        if not tables.exists():
            call(["bundle", "exec", "rake", "db:migrate"], directory / "tables.log", env, root)
            shutil.copy(base, tables)
        shutil.copy(tables, base)
        command = ["puma", "--quiet", "--threads", "1:4", "--bind", "tcp://%s:%d" % address, "config.ru"]
        with running("puma", command, directory / "puma.log", env, root) as server:
            wait_until(lambda: accepts(address), server)
            yield cls()

    @staticmethod
    def attempt(visitor, user, password, note=None, path=FORM, **others):
        """The form as the page has it."""
        token = visitor.keep(visitor.get(FORM).find('name="authenticity_token" value="([^"]+)'))
        fields = {"username": user, "password": password, "authenticity_token": token, "login": "Login"}
        return visitor.form(path, fields | others, note=note)

    def visits(self, visitor):
        """The form in all formats, Basic, the password again, and mails."""

        def attempt(name, expect, user, password, guest=None, shows="Invalid user or password", **others):
            shows = "" if expect == "success" else shows
            note = Note(name, expect, user, "redmine", shows, USER if user.lower() == USER != user else None)
            return self.attempt(guest or visitor.another(), user, password, note, **others)

        visitor.get(FORM, note=Note("form", "none", shows='name="password"'))
        attempt("wrong-password", "failure", USER, "wrong")
        attempt("unknown-account", "failure", "nobody", "wrong")
        attempt("empty", "failure", "", "")
        attempt("wrong-token", "failure", USER, PASSWORD, shows="", authenticity_token="made-up")
        attempt("right-password", "success", USER, PASSWORD)
        attempt("right-password-capitals", "success", USER.upper(), PASSWORD)
        attempt("right-password-and-a-page", "success", USER, PASSWORD, back_url="/projects")
        attacker = visitor.another()
        self.attempt(attacker, OTHER, OTHERS_PASSWORD)
        token = attacker.keep(attacker.get("/my/password").find('name="authenticity_token" value="([^"]+)'))
        fields = {"username": USER, "password": "wrong", "authenticity_token": token}
        note = Note("wrong-password-while-signed-in", "failure", USER, "redmine", "Invalid user or password")
        attacker.form(FORM, fields, note=note)
        token = attacker.keep(attacker.get("/my/password").find('name="authenticity_token" value="([^"]+)'))
        fields = {"password": "wrong", "new_password": "x", "authenticity_token": token}
        note = Note("password-again", "failure", None, "redmine-again", "Wrong password")
        attacker.form("/my/password", fields, note=note)
        self.formats(visitor)
        self.basic(visitor)
        self.mails(visitor)

    @staticmethod
    def formats(visitor):
        """JSON and XML, without a token; an XML document is one field."""
        for kind, password, expect in (("right", PASSWORD, "success"), ("wrong", "wrong", "failure")):
            note = Note(f"{kind}-password-as-json", expect, USER, "redmine", "")
            visitor.another().json("/login.json", {"username": USER, "password": password}, note=note)
            note = Note(f"{kind}-password-as-xml", expect, USER, "redmine", "")
            text = f"<password>{password}</password>"
            visitor.another().ask("POST", f"/login.xml?username={USER}", text, "application/xml", note=note)

    @staticmethod
    def basic(visitor):
        """Where a password is needed, and where none is."""
        for name, page in (("", "/users/current.json"), ("-elsewhere", "/projects.json")):
            for kind, password in (("right", PASSWORD), ("wrong", "wrong")):
                note = Note(f"basic-{kind}{name}", "failure", USER, "redmine-api", "")
                visitor.another().basic(page, USER, password, note=note)

    @staticmethod
    def mails(visitor):
        """New passwords and registrations."""
        for name, page, fields, user in (
            ("lost-password", "/account/lost_password", {"mail": f"{USER}@app.example"}, f"{USER}@app.example"),
            ("registration", "/account/register", REGISTRATION, "nobody@app.example"),
        ):
            guest = visitor.another()
            token = guest.keep(guest.get(page).find('name="authenticity_token" value="([^"]+)'))
            note = Note(name, "failure", user, "redmine-mail", "")
            guest.form(page, fields | {"authenticity_token": token}, note=note)


REGISTRATION = {
    "user[login]": "nobody",
    "user[mail]": "nobody@app.example",
    "user[firstname]": "nobody",
    "user[lastname]": "nobody",
    "user[password]": "new-password",
    "user[password_confirmation]": "new-password",
}
