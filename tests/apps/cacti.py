"""Cacti from Debian on PHP's own server, before a MariaDB of its own.

Every page of it takes a name and a password, by GET without the token of the form.
"""

import re
import shutil
from contextlib import contextmanager
from urllib.parse import urlencode

from environments import PLACE
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, call, running, wait_until
from recording import Note
from wordpress import SETTINGS, database

FORM = "/index.php"
HASH = "echo password_hash($argv[1], PASSWORD_BCRYPT);"
PEOPLE = """
UPDATE settings SET value = '{log}' WHERE name = 'path_cactilog';
UPDATE version SET cacti = '{version}';
UPDATE user_auth SET username = '{first}', password = '{first_hash}', must_change_password = '' WHERE id = 1;
CREATE TEMPORARY TABLE another SELECT * FROM user_auth WHERE id = 1;
UPDATE another SET id = 100, username = '{second}', password = '{second_hash}';
INSERT INTO user_auth SELECT * FROM another;
INSERT INTO user_auth_realm SELECT realm_id, 100 FROM user_auth_realm WHERE user_id = 1;
"""


class Cacti:
    """A running site."""

    title = "Cacti"
    preset = "cacti"
    place = "cacti"
    wrong, right, proves, has_accounts = 200, 302, False, True

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """Database, two accounts and the server, for the length of the block."""
        unpacked, root = PLACE / "cacti" / "usr/share", directory / "root"
        shutil.copytree(unpacked / "cacti/site", root, ignore_dangling_symlinks=True)
        for part in ("cache", "log"):
            (root / part).mkdir(exist_ok=True)
        with database(directory) as env:
            version = (root / "include" / "cacti_version").read_text().strip()
            fill(directory, unpacked / "doc/cacti/cacti.sql", env["APP_DB_SOCKET"], version, root / "log" / "cacti.log")
            (root / "include" / "config.php").write_text(settings(directory, unpacked))
            sockets = [f"{name}.default_socket={env['APP_DB_SOCKET']}" for name in ("mysqli", "pdo_mysql")]
            words = [word for setting in (*sockets, f"session.save_path={directory}") for word in ("-d", setting)]
            command = ["php", *SETTINGS, *words, "-S", "%s:%d" % address, "-t", str(root)]
            with running("php -S", command, directory / "php.log") as server:
                wait_until(lambda: accepts(address), server)
                yield cls()

    @staticmethod
    def attempt(visitor, user, password, note=None, path=FORM, **others):
        """The form as the page has it."""
        token = visitor.keep(visitor.get(path).find(r"csrfMagicToken\s*=\s*['\"]([^'\"]+)"))
        fields = {"__csrf_magic": token, "action": "login", "login_username": user, "login_password": password}
        return visitor.form(path, fields | others, note=note)

    def visits(self, visitor):
        """The form on two pages, without a token, and in spellings that are the same account."""

        def attempt(name, user, password, **others):
            note = Note(name, "failure", user.strip(), "cacti", "")
            return self.attempt(visitor.another(), user, password, note, **others)

        visitor.get(FORM, note=Note("form", "none", shows="login_password"))
        attempt("wrong-password", USER, "wrong")
        attempt("wrong-password-elsewhere", USER, "wrong", path="/host.php")
        attempt("unknown-account", "nobody", "wrong")
        attempt("empty", "", "")
        attempt("wrong-token", USER, PASSWORD, __csrf_magic="x")
        signed_in = visitor.another()
        self.attempt(signed_in, USER, PASSWORD, Note("right-password", "failure", USER, "cacti", ""))
        signed_in.get(FORM, note=Note("page-behind-the-right-password", "none", shows="logout.php"))
        attempt("capitals", USER.upper(), PASSWORD)
        attempt("cleaned-quotes", f"{USER[:3]}'{USER[3:]}", PASSWORD)
        attempt("cleaned-brackets", f"({USER})", PASSWORD)
        query = urlencode({"action": "login", "login_username": USER, "login_password": PASSWORD})
        visitor.another().get(f"{FORM}?{query}", note=Note("right-password-in-the-address", "failure", USER, "cacti", ""))
        attacker = visitor.another()
        self.attempt(attacker, OTHER, OTHERS_PASSWORD)
        fields = {"action": "login", "login_username": USER, "login_password": "wrong"}
        attacker.form(FORM, fields, note=Note("wrong-password-while-signed-in", "failure", USER, "cacti", ""))
        attacker.get("/logout.php", note=Note("sign-out", "none", shows=""))


def fill(directory, tables, socket, version, log):
    """The tables and two accounts."""
    client = ["mariadb", "--no-defaults", f"--socket={socket}", "--user=root"]
    prepare = "SET GLOBAL innodb_flush_log_at_trx_commit = 0; CREATE USER cacti@localhost IDENTIFIED BY 'cacti'; "
    prepare += "CREATE DATABASE cacti CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci; GRANT ALL ON cacti.* TO cacti@localhost"
    call([*client, "-e", prepare], directory / "prepare.log")
    hashes = [call(["php", "-r", HASH, word], directory / "hash.log").strip() for word in (PASSWORD, OTHERS_PASSWORD)]
    people = PEOPLE.format(log=log, version=version, first=USER, second=OTHER, first_hash=hashes[0], second_hash=hashes[1])
    (directory / "people.sql").write_text(people)
    for file in (tables, directory / "people.sql"):
        call([*client, "cacti", "-e", f"source {file}"], directory / f"{file.name}.log")


def settings(directory, unpacked):
    """Its configuration, at the root of the server."""
    text = (unpacked / "cacti/conf_templates/debian.php.dist").read_text()
    for word, value in {"NAME": "cacti", "SERVER": "localhost", "USER": "cacti", "PASS": "cacti", "PORT": "3306"}.items():
        text = text.replace(f"_DBC_DB{word}_", value)
    text = text.replace("/var/lib/cacti/csrf/secret.php", f"{directory}/secret.php")
    return re.sub(r"\$url_path = '/cacti/';", "$url_path = '/';", text)
