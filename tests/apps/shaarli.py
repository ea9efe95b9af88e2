"""Shaarli from Debian on PHP's own server: one account, and everything in files."""

import hashlib
import json
import re
import shutil
from contextlib import contextmanager
from urllib.parse import urlencode

from environments import PLACE
from person import PASSWORD, USER
from processes import accepts, running, wait_until
from recording import Note
from wordpress import SETTINGS

FORM = "/login"
SALT = "made-up"


class Shaarli:
    """A running site."""

    title = "Shaarli"
    preset = "shaarli"
    place = "shaarli"
    wrong, right, proves, has_accounts = 200, 302, True, True

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """One account and the server, for the length of the block."""
        unpacked, root = PLACE / "shaarli" / "usr/share", directory / "root"
        without = shutil.ignore_patterns("doc", "cache", "*.woff", "*.woff2")
        shutil.copytree(unpacked / "shaarli", root, ignore=without)
        for place in ("cache", "data", "pagecache", "tmp"):
            (root / place).mkdir(exist_ok=True)
        for name in ("index.php", "init.php", "application/config/ConfigManager.php"):
            text = (root / name).read_text().replace("/usr/share/shaarli", str(root))
            (root / name).write_text(re.sub("/var/(lib|cache)/shaarli", str(root), text))
        key = hashlib.sha1(f"{PASSWORD}{USER}{SALT}".encode()).hexdigest()
        config = {
            "credentials": {"login": USER, "hash": key, "salt": SALT},
            "general": {"title": "Shaarli", "timezone": "UTC", "retrieve_description": False},
            "security": {"trusted_proxies": ["127.0.0.1"], "session_protection_disabled": True},
            "updates": {"check_updates": False},
        }
        (root / "data" / "config.json.php").write_text(f"<?php /*\n{json.dumps(config)}\n*/ ?>")
        path = ["-d", f"include_path=.:{unpacked}/php:/usr/share/php", "-d", f"session.save_path={directory}"]
        command = ["php", *SETTINGS, *path, "-S", "%s:%d" % address, "-t", str(root)]
        with running("php -S", command, directory / "php.log", cwd=root) as server:
            wait_until(lambda: accepts(address), server)
            yield cls()

    @staticmethod
    def attempt(visitor, user, password, note=None, **others):
        """The form as the page has it."""
        token = visitor.keep(visitor.get(FORM).find('name="token" value="([^"]+)'))
        fields = {"login": user, "password": password, "token": token, "returnurl": ""}
        return visitor.form(FORM, fields | others, note=note)

    def visits(self, visitor):
        """The form, as JSON and by a method that a header overrides, and the password again; four failures block an address."""
        numbers = iter(range(1, 100))
        visitor.keep(visitor.address[0], "app.example")  # in the session's cookie

        def another():
            guest = visitor.another(f"127.8.0.{next(numbers)}")
            guest.keep(visitor.address[0], "app.example")
            return guest

        def attempt(name, expect, user, password, guest=None, **others):
            note = Note(name, expect, user, "shaarli", "Wrong login" if others == {} and expect == "failure" else "")
            return self.attempt(guest or another(), user, password, note, **others)

        def words(guest, user, password):
            token = guest.keep(guest.get(FORM).find('name="token" value="([^"]+)'))
            return {"login": user, "password": password, "token": token}

        visitor.get(FORM, note=Note("form", "none", shows='name="password"'))
        attempt("wrong-password", "failure", USER, "wrong")
        attempt("unknown-account", "failure", "nobody", PASSWORD)
        attempt("capitals-are-another-account", "failure", USER.upper(), PASSWORD)
        attempt("wrong-token", "failure", USER, PASSWORD, token="made-up")
        owner = another()
        attempt("right-password", "success", USER, PASSWORD, owner)
        guest = another()
        note = Note("right-password-as-json", "success", USER, "shaarli", "")
        guest.json(FORM, words(guest, USER, PASSWORD), note=note)
        guest = another()
        note = Note("right-password-by-another-method", "success", USER, "shaarli", "")
        path = f"{FORM}?{urlencode(words(guest, USER, PASSWORD))}"
        guest.get(path, headers={"X-Http-Method-Override": "POST"}, note=note)
        token = owner.keep(owner.get("/admin/password").find('name="token" value="([^"]+)'))
        note = Note("wrong-password-while-signed-in", "failure", "nobody", "shaarli", "")
        owner.form(FORM, {"login": "nobody", "password": "wrong", "token": token}, note=note)
        token = owner.keep(owner.get("/admin/password").find('name="token" value="([^"]+)'))
        note = Note("password-again", "failure", None, "shaarli-again", "old password is not correct")
        owner.form("/admin/password", {"oldpassword": "wrong", "setpassword": "x", "token": token}, note=note)
        locked = another()
        last = words(locked, USER, PASSWORD)
        for _ in range(4):
            self.attempt(locked, USER, "wrong")
        locked.form(FORM, last, note=Note("blocked-address", "failure", USER, "shaarli", "banned"))
