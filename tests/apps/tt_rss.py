"""Tiny Tiny RSS from Debian on PHP's own server, before a MariaDB of its own.

The form redirects right and wrong passwords alike; the API says which is which, in the body.
"""

import json
import re
import shutil
from base64 import b64encode
from contextlib import contextmanager

from environments import PLACE
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, call, running, wait_until
from recording import Note
from wordpress import SETTINGS, database

FORM, API = "/public.php", "/api/"
CONFIG = """<?php
define('_SKIP_SELF_URL_PATH_CHECKS', true);
$dbtype = 'mysql'; $dbserver = 'localhost'; $dbport = ''; $dbuser = $dbname = 'wordpress'; $dbpass = '{password}';
"""
PEOPLE = """
$db = new mysqli('localhost', 'wordpress', getenv('APP_DB_PASSWORD'), 'wordpress', 0, getenv('APP_DB_SOCKET'));
$db->multi_query(file_get_contents($argv[1]));
while ($db->more_results()) $db->next_result();
foreach (array_chunk(array_slice($argv, 2), 2) as [$user, $password]) {
  $hash = 'MODE2:' . hash('sha256', 'salt' . $password);
  $columns = 'login, pwd_hash, salt, email, access_level';
  $db->query("INSERT INTO ttrss_users ($columns) VALUES ('$user', '$hash', 'salt', '$user@app.example', 10)");
  $db->query("INSERT INTO ttrss_user_prefs (owner_uid, pref_name, value) SELECT LAST_INSERT_ID(), 'ENABLE_API_ACCESS', 'true'");
}
"""


class TinyTinyRss:
    """A running site."""

    title = "Tiny Tiny RSS"
    preset = "tt-rss"
    place = "tt-rss"
    wrong, right, proves, has_accounts = 302, 302, False, True

    @classmethod
    @contextmanager
    def start(cls, directory, address, site):
        """Database, two accounts and the server, for the length of the block."""
        unpacked, root = PLACE / "tt-rss", directory / "root"
        without = shutil.ignore_patterns("config.php", "feed-icons", "iconfont", "dojo", "dijit", "scriptaculous")
        shutil.copytree(unpacked / "usr/share/tt-rss/www", root, ignore=without)
        with database(directory) as env:
            schema = unpacked / "usr/share/tt-rss/schema/ttrss_schema_mysql.sql"
            people = (USER, PASSWORD, OTHER, OTHERS_PASSWORD)
            call(["php", *SETTINGS, "-r", PEOPLE, str(schema), *people], directory / "people.log", env)
            config = (unpacked / "etc/tt-rss/config.php").read_text().split("include_once('/etc/tt-rss/database.php');")[1]
            config = config.replace("%SELF_URL_PATH", f"{site}/")
            config = config.replace("/var/lib/tt-rss", f"{directory}/lock").replace("/var/cache/tt-rss", f"{directory}/cache")
            for place in ("lock", "cache/images", "cache/upload", "cache/export", "cache/js", "cache/feeds", "root/feed-icons"):
                (directory / place).mkdir(parents=True, exist_ok=True)
            (root / "config.php").write_text(CONFIG.format(password=env["APP_DB_PASSWORD"]) + config)
            # It refuses to run as root.
            socket = ["-d", f"pdo_mysql.default_socket={env['APP_DB_SOCKET']}", "-d", "disable_functions=posix_getuid"]
            command = ["php", *SETTINGS, *socket, "-S", "%s:%d" % address, "-t", str(root)]
            with running("php -S", command, directory / "php.log") as server:
                wait_until(lambda: accepts(address), server)
                yield cls()

    @staticmethod
    def attempt(visitor, user, password, note=None, path=FORM, **others):
        """The form as the page has it."""
        fields = {"op": "login", "login": user, "password": password, "profile": "0"}
        return visitor.form(path, fields | others, note=note)

    def visits(self, visitor):
        """The form in several spellings, which is always answered alike, the API, the password again and mails."""

        def attempt(name, user, password, visitor=None, **others):
            note = Note(name, "failure", user, "tt-rss", "", None if user in (USER, "nobody", "") else USER)
            return self.attempt(visitor or sources.another(), user, password, note, **others)

        sources = visitor
        visitor.get("/", note=Note("form", "none", shows='name="password"'))
        attempt("wrong-password", USER, "wrong")
        attempt("unknown-account", "nobody", "wrong")
        attempt("empty", "", "")
        attempt("right-password-and-remember", USER, PASSWORD, remember_me="on")
        signed_in = visitor.another()
        attempt("right-password", USER, PASSWORD, signed_in)
        signed_in.get("/", note=Note("page-behind-the-right-password", "none", shows="<title>Tiny Tiny RSS</title>"))
        for name, spelling in SPELLINGS.items():
            guest = visitor.another()
            attempt(f"right-password-{name}", spelling, PASSWORD, guest)
            guest.get("/", note=Note(f"page-behind-{name}", "none", shows="<title>Tiny Tiny RSS</title>"))
        attacker = visitor.another()
        self.attempt(attacker, OTHER, OTHERS_PASSWORD)
        attempt("wrong-password-while-signed-in", USER, "wrong", attacker)
        self.api(visitor)
        self.again(attacker)
        self.mails(visitor)

    @staticmethod
    def api(visitor):
        """One address; what came of it is in the body."""
        members = ("/status", "/content/error", "/content/session_id")
        for name, expect, user, password in (
            ("api-wrong", "failure", USER, "wrong"),
            ("api-unknown", "failure", "nobody", "wrong"),
            ("api-right", "success", USER, PASSWORD),
            ("api-right-capitals", "success", USER.upper(), PASSWORD),
            ("api-right-encoded", "success", USER, b64encode(PASSWORD.encode()).decode()),
        ):
            spelling = USER if user == USER.upper() else None
            secret = '"session_id":"([^"]+)' if expect == "success" else None
            note = Note(name, expect, user, "tt-rss-api", None, spelling, secret, members)
            visitor.another().json(API, {"op": "login", "user": user, "password": password}, note=note)
        attacker = visitor.another()
        for name, call in (
            ("wrong-while-signed-in", {"op": "login", "user": USER, "password": "wrong"}),
            ("is-signed-in-with-a-name", {"op": "isLoggedIn", "user": USER}),
            ("is-signed-in", {"op": "isLoggedIn"}),
        ):
            fields = {"op": "login", "user": OTHER, "password": OTHERS_PASSWORD}
            session = attacker.keep(attacker.json(API, fields).json("content", "session_id"))
            note = Note(f"api-{name}", "failure", USER, "tt-rss-api", members=members)
            if "user" not in call:
                note = Note(f"api-{name}", "none", members=("/status", "/content/status"))
            attacker.json(API, call | {"sid": session}, note=note)
        text = json.dumps({"op": "login", "user": USER, "password": "wrong"})
        note = Note("api-by-another-method-and-type", "failure", USER, "tt-rss-api", members=members)
        visitor.another().ask("PUT", API, text, "text/plain", note=note)

    @staticmethod
    def again(visitor):
        """The password of who is signed in."""
        token = visitor.keep(visitor.get("/").find('__csrf_token = "([^"]+)'))
        fields = {"op": "pref-prefs", "method": "changepassword", "old_password": "wrong", "new_password": "x"}
        fields |= {"confirm_password": "x", "csrf_token": token}
        note = Note("password-again", "failure", None, "tt-rss-again", "Old password is incorrect")
        visitor.form("/backend.php", fields, note=note)
        fields = {"op": "pref-prefs", "method": "otpdisable", "password": "wrong", "csrf_token": token}
        note = Note("password-again-for-the-second-factor", "failure", None, "tt-rss-again", "Incorrect password")
        visitor.form("/backend.php", fields, note=note)

    @staticmethod
    def mails(visitor):
        """A new password; registrations are broken in this version."""
        guest = visitor.another()
        page = guest.get(f"{FORM}?op=forgotpass").body
        first, second = re.search(r"(\d+)\s*\+\s*(\d+)", page).groups()
        total = guest.keep(f"test={int(first) + int(second)}", "test=7")
        fields = {"op": "forgotpass", "method": "do", "login": USER, "email": f"{USER}@app.example", "test": total.split("=")[1]}
        note = Note("lost-password", "failure", None, "tt-rss-mail", "")
        guest.form(FORM, fields, note=note)


# All of them are one account.
SPELLINGS = {
    "capitals": USER.upper(),
    "accents": USER.replace("a", "\u00e1", 1),
    "blanks": f"{USER}  ",
    "markup": USER.replace("g", "<b>g"),
}
