"""Kanboard from its source on PHP's own server, with a database in one file."""

import json
import re
import shutil
from base64 import b64encode
from contextlib import contextmanager

from environments import PLACE
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, call, running, wait_until
from recording import Note
from wordpress import SETTINGS

FORM = "/?controller=AuthController&action=check"
API = "/jsonrpc.php"
CONFIG = """<?php
define('BRUTEFORCE_CAPTCHA', 100);
define('BRUTEFORCE_LOCKDOWN', 100);
define('MAIL_TRANSPORT', 'mail');
"""
PEOPLE = """
require 'app/common.php';
foreach (array_chunk(array_slice($argv, 1), 2) as [$user, $password]) {
  $person = ['username' => $user, 'password' => $password, 'role' => 'app-admin', 'email' => "$user@app.example"];
  $container['userModel']->create($person);
}
$container['configModel']->save(['password_reset' => 1]);
"""


class Kanboard:
    """A running site."""

    title = "Kanboard"
    preset = "kanboard"
    place = "kanboard"
    wrong, right, proves, has_accounts = 200, 302, False, True

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """Tables, two accounts and the server, for the length of the block."""
        root = directory / "root"
        shutil.copytree(PLACE / "kanboard", root)
        (root / "config.php").write_text(CONFIG)
        call(["php", *SETTINGS, "-r", PEOPLE, USER, PASSWORD, OTHER, OTHERS_PASSWORD], directory / "people.log", cwd=root)
        command = ["php", *SETTINGS, "-d", f"session.save_path={directory}", "-S", "%s:%d" % address, "-t", str(root)]
        with running("php -S", command, directory / "php.log", cwd=root) as server:
            wait_until(lambda: accepts(address), server)
            yield cls()

    @staticmethod
    def token(visitor, page="/?controller=AuthController&action=login"):
        """The one of a form, which differs from page to page."""
        return visitor.keep(re.sub("&amp;", "&", visitor.get(page).find('name="csrf_token" value="([^"]+)')))

    @classmethod
    def attempt(cls, visitor, user, password, note=None, path=FORM, **others):
        """The form as the page has it."""
        fields = {"csrf_token": cls.token(visitor), "username": user, "password": password}
        return visitor.form(path, fields | others, note=note)

    def visits(self, visitor):
        """The form on several addresses, the password again, lost passwords, and the API."""

        def attempt(name, user, password, guest=None, shows="", **others):
            note = Note(name, "failure", user, "kanboard", shows)
            return self.attempt(guest or visitor.another(), user, password, note, **others)

        wrong = "Bad username or password"
        visitor.get("/?controller=AuthController&action=login", note=Note("form", "none", shows='name="password"'))
        attempt("wrong-password", USER, "wrong", shows=wrong)
        attempt("unknown-account", "nobody", "wrong", shows=wrong)
        attempt("capitals-are-another-account", USER.upper(), PASSWORD, shows=wrong)
        attempt("wrong-token", USER, PASSWORD, csrf_token="made-up")
        owner = visitor.another()
        attempt("right-password", USER, PASSWORD, owner)
        page = "/?controller=DashboardController&action=show"
        owner.get(page, note=Note("page-behind-the-right-password", "none", shows="<title>"))
        attempt("right-password-and-remember", USER, PASSWORD, remember_me="1")
        path = "/nothing.css?controller=AuthController&action=check"
        attempt("right-password-elsewhere", USER, PASSWORD, path=f"/index.php{path}")
        page = "/?controller=UserCredentialController&action=changePassword&user_id=2"
        fields = {"username": OTHER, "password": "wrong", "csrf_token": self.token(owner, page)}
        owner.form(FORM, fields, note=Note("wrong-password-while-signed-in", "failure", OTHER, "kanboard", ""))
        fields = {"id": "2", "current_password": "wrong", "password": "new-password", "confirmation": "new-password"}
        fields["csrf_token"] = self.token(owner, page)
        note = Note("password-again", "failure", None, "kanboard-second", "Wrong password")
        owner.form("/?controller=UserCredentialController&action=savePassword&user_id=2", fields, note=note)
        guest = visitor.another()
        token = self.token(guest, "/?controller=PasswordResetController&action=create")
        fields = {"username": USER, "captcha": "wrong", "csrf_token": token}
        note = Note("lost-password", "failure", USER, "kanboard-mail kanboard", "")
        guest.form("/?controller=PasswordResetController&action=save", fields, note=note)
        self.api(visitor)

    @staticmethod
    def api(visitor):
        """Single calls and batches."""
        call = {"jsonrpc": "2.0", "method": "getMe", "id": 1}
        for name, expect, password, body in (
            ("right", "neutral", PASSWORD, call),
            ("wrong", "failure", "wrong", call),
            ("wrong-batch", "failure", "wrong", [call, call]),
            ("not-judged", "neutral", "wrong", "x"),
        ):
            headers = {"Authorization": "Basic " + b64encode(f"{USER}:{password}".encode()).decode()}
            note = Note(f"api-{name}", expect, USER, "kanboard-api", "")
            visitor.another().ask("POST", API, json.dumps(body), "application/json", headers, note)
