"""ZoneMinder's web interface from Debian on PHP's own server, before a MariaDB of its own."""

import shutil
from contextlib import contextmanager
from urllib.parse import urlencode

from environments import PLACE
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, call, running, wait_until
from recording import Note
from wordpress import SETTINGS, database

FORM = "/index.php"
API = "/api/host/login.json"
CONFIG = """
ZM_PATH_WEB={root}
ZM_DB_TYPE=mysql
ZM_DB_HOST=localhost:{socket}
ZM_DB_NAME=wordpress
ZM_DB_USER=wordpress
ZM_DB_PASS={password}
ZM_SERVER_HOST=
"""
TABLES = """
$database = new mysqli(null, 'wordpress', getenv('APP_DB_PASSWORD'), 'wordpress', 0, getenv('APP_DB_SOCKET'));
$text = file_get_contents($argv[1]);
$database->multi_query(preg_replace('/^(CREATE DATABASE|USE|GRANT|source) .*$/m', '', $text));
while ($database->next_result());
"""
PEOPLE = """
$database = new mysqli(null, 'wordpress', getenv('APP_DB_PASSWORD'), 'wordpress', 0, getenv('APP_DB_SOCKET'));
foreach (array_chunk(array_slice($argv, 1), 2) as [$user, $password]) {
  $person = [$user, password_hash($password, PASSWORD_BCRYPT)];
  $database->execute_query("INSERT INTO Users (Username, Password, Enabled, System) VALUES (?, ?, 1, 'View')", $person);
}
foreach (['ZM_OPT_USE_AUTH' => 1, 'ZM_OPT_USE_API' => 1, 'ZM_AUTH_HASH_SECRET' => 'x'] as $name => $value) {
  $database->execute_query("UPDATE Config SET Value = ? WHERE Name = ?", [$value, $name]);
}
"""
# What its package has Apache do.
ROUTER = """<?php
$root = $_SERVER['DOCUMENT_ROOT'];
if (!preg_match('#^/api/#', $_SERVER['REQUEST_URI'])) return false;
$_SERVER['REQUEST_URI'] = substr($_SERVER['REQUEST_URI'], strlen('/api'));
$_SERVER['SCRIPT_NAME'] = $_SERVER['PHP_SELF'] = '/api/app/webroot/index.php';
$_SERVER['SCRIPT_FILENAME'] = "$root/api/app/webroot/index.php";
chdir("$root/api/app/webroot");
require 'index.php';
"""


class ZoneMinder:
    """A running site."""

    title = "ZoneMinder"
    preset = "zoneminder"
    place = "zoneminder"
    wrong, right, proves, has_accounts = 200, 200, False, True

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """Tables, two accounts and the server, for the length of the block."""
        unpacked, root = PLACE / "zoneminder", directory / "root"
        shutil.copytree(unpacked / "usr/share/zoneminder/www", root, ignore_dangling_symlinks=True)
        (root / "api/app/tmp").unlink(missing_ok=True)
        for place in ("cache/models", "cache/persistent", "cache/views", "logs", "sessions"):
            (root / "api/app/tmp" / place).mkdir(parents=True, exist_ok=True)
        api = root / "api/app/Config"
        core = (api / "core.php.default").read_text().replace("__ZM_API_SEED__", "1" * 40)
        (api / "core.php").write_text(core.replace("'Apc'", "'File'"))
        (api / "bootstrap.php").write_text((api / "bootstrap.php").read_text().replace("'Apc'", "'File'"))
        bootstrap = root / "api/lib/Cake/bootstrap.php"
        bootstrap.write_text(bootstrap.read_text().replace("'/tmp/zm'", f"'{root}/api/app/tmp/'"))
        config = root / "includes" / "config.php"
        config.write_text(config.read_text().replace("/etc/zm/zm.conf", str(directory / "zm.conf")))
        with database(directory) as env:
            words = {"root": root, "socket": env["APP_DB_SOCKET"], "password": env["APP_DB_PASSWORD"]}
            given = [unpacked / "etc/zm/zm.conf", *(unpacked / "etc/zm/conf.d").glob("*.conf")]
            text = "".join(file.read_text() for file in given)
            (directory / "zm.conf").write_text(text + CONFIG.format(**words))
            tables = str(unpacked / "usr/share/zoneminder/db/zm_create.sql")
            call(["php", "-r", TABLES, tables], directory / "tables.log", env)
            call(["php", "-r", PEOPLE, USER, PASSWORD, OTHER, OTHERS_PASSWORD], directory / "people.log", env)
            router = directory / "router.php"
            router.write_text(ROUTER)
            command = ["php", *SETTINGS, "-d", f"session.save_path={directory}", "-d", "error_reporting=0"]
            command += ["-S", "%s:%d" % address, "-t", str(root), str(router)]
            with running("php -S", command, directory / "php.log", env) as server:
                wait_until(lambda: accepts(address), server)
                yield cls()

    @staticmethod
    def attempt(visitor, user, password, note=None, path=FORM, **others):
        """The form as the page has it."""
        token = visitor.keep(visitor.get(FORM).find("name='__csrf_magic' value=\"([^\"]+)"))
        fields = {"__csrf_magic": token, "action": "login", "postLoginQuery": "", "username": user, "password": password}
        return visitor.form(path, fields | others, note=note)

    def visits(self, visitor):
        """The form, and what takes a name and a password besides."""

        def attempt(name, user, password, guest=None, **others):
            note = Note(name, "failure", user, "zoneminder", "<title>")
            return self.attempt(guest or visitor.another(), user, password, note, **others)

        visitor.get(FORM, note=Note("form", "none", shows='name="password"'))
        attempt("wrong-password", USER, "wrong")
        attempt("unknown-account", "nobody", "wrong")
        attempt("capitals-are-another-account", USER.upper(), PASSWORD)
        attempt("right-password", USER, PASSWORD)
        attacker = visitor.another()
        self.attempt(attacker, OTHER, OTHERS_PASSWORD)
        note = Note("wrong-password-while-signed-in", "failure", USER, "zoneminder", "")
        attacker.get(f"{FORM}?{urlencode({'view': 'version', 'username': USER, 'password': 'wrong'})}", note=note)
        for name, password in (("wrong", "wrong"), ("right", PASSWORD)):
            note = Note(f"{name}-in-the-address", "failure", USER, "zoneminder", "")
            query = urlencode({"view": "version", "username": USER, "password": password})
            visitor.another().get(f"{FORM}?{query}", note=note)
            note = Note(f"api-{name}", "failure", USER, "zoneminder", "")
            visitor.another().form(API, {"user": USER, "pass": password}, note=note)
            note = Note(f"api-{name}-in-the-address", "failure", USER, "zoneminder", "")
            query = urlencode({"user": USER, "pass": password})
            visitor.another().get(f"/api/host/getVersion.json?{query}", note=note)
