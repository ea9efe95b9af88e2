"""Zabbix' frontend from Debian on PHP's own server, before a MariaDB of its own and without a Zabbix server.

It answers 200 to a wrong password, and sets its cookie with every answer.
"""

import gzip
import json
import re
import shutil
from contextlib import contextmanager
from glob import glob

from environments import PLACE
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, call, running, wait_until
from recording import Note
from wordpress import SETTINGS, database

FORM, API = "/index.php", "/api_jsonrpc.php"
HASH = "echo password_hash($argv[1], PASSWORD_BCRYPT);"
# Only what a sign-in needs: the templates of all products are 40 MB.
WANTED = re.compile(r"INSERT INTO `?(users|usrgrp|users_groups|role|role_rule|config|config_autoreg_tls|dbversion)`? ")
PEOPLE = """
SET foreign_key_checks = 0;
{data}
UPDATE users SET username = '{first}', passwd = '{first_hash}' WHERE username = 'Admin';
CREATE TEMPORARY TABLE another SELECT * FROM users WHERE userid = 1;
UPDATE another SET userid = 100, username = '{second}', passwd = '{second_hash}';
INSERT INTO users SELECT * FROM another;
INSERT INTO users_groups (id, usrgrpid, userid) VALUES (1000, 7, 100);
"""


class Zabbix:
    """A running site."""

    title = "Zabbix"
    preset = "zabbix"
    place = "zabbix"
    wrong, right, proves, has_accounts = 200, 302, False, True

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """Database, two accounts and the server, for the length of the block."""
        unpacked, root = PLACE / "zabbix", directory / "root"
        shutil.copytree(unpacked / "usr/share/zabbix", root, ignore_dangling_symlinks=True)
        config = root / "conf" / "zabbix.conf.php"
        finder = root / "include/classes/core/CConfigFile.php"
        finder.write_text(finder.read_text().replace("/etc/zabbix/zabbix.conf.php", str(config)))
        example = (root / "conf" / "zabbix.conf.php.example").read_text()
        config.write_text(re.sub(r"\['PASSWORD'\]\s*= ''", "['PASSWORD'] = 'zabbix'", example))
        with database(directory) as env:
            fill(directory, unpacked / "usr/share/zabbix-server-mysql", env["APP_DB_SOCKET"])
            (extension,) = glob(f"{unpacked}/usr/lib/php/*/bcmath.so")
            settings = [f"extension={extension}", f"mysqli.default_socket={env['APP_DB_SOCKET']}"]
            settings += ["post_max_size=16M", "max_execution_time=300", f"session.save_path={directory}"]
            command = ["php", *SETTINGS, *(word for setting in settings for word in ("-d", setting))]
            with running("php -S", [*command, "-S", "%s:%d" % address, "-t", str(root)], directory / "php.log") as server:
                wait_until(lambda: accepts(address), server)
                yield cls()

    @staticmethod
    def attempt(visitor, user, password, note=None, **others):
        """The form as the page has it."""
        fields = {"name": user, "password": password, "autologin": "1", "enter": "Sign in"}
        return visitor.form(FORM, fields | others, note=note)

    def visits(self, visitor):
        """The form and the API; five wrong passwords in a row block an account for half a minute."""

        def attempt(name, user, password, visitor=visitor, shows="", **others):
            return self.attempt(visitor, user, password, Note(name, "failure", user, "zabbix", shows), **others)

        wrong = "Incorrect user name or password"
        visitor.get(FORM, note=Note("form", "none", shows='name="password"'))
        attempt("wrong-password", USER, "wrong", shows=wrong)
        attempt("unknown-account", "nobody", "wrong", shows=wrong)
        attempt("empty", "", "", shows=wrong)
        attempt("capitals-are-another-account", USER.upper(), PASSWORD, shows=wrong)
        attempt("right-password", USER, PASSWORD)
        query = f"{FORM}?name={USER}&password={PASSWORD}&enter=1"
        visitor.another().get(query, note=Note("right-password-in-the-address", "failure", USER, "zabbix", ""))
        attacker = visitor.another()
        self.attempt(attacker, OTHER, OTHERS_PASSWORD)
        attempt("wrong-password-while-signed-in", USER, "wrong", attacker, wrong)
        # The same redirect as for a right password, without a sign-in.
        note = Note("no-sign-in-while-signed-in", "none", shows="")
        attacker.form(FORM, {"name": USER, "password": "wrong"}, note=note)
        self.api(visitor.another())
        visitor.get(f"{FORM}?reconnect=1", note=Note("sign-out", "none", shows=""))

    @staticmethod
    def api(visitor):
        """Calls one at a time and in batches, which PHP reads from objects as well."""
        door = "zabbix-login zabbix-api"

        def ask(name, value, user=None, door=door, **options):
            note = Note(f"api-{name}", "failure", user, door, **options)
            visitor.another().ask("POST", API, json.dumps(value), "application/json-rpc", note=note)

        session = r'"result":"([0-9a-f]+)'
        ask("wrong", sign_in("wrong"), USER)
        ask("right", sign_in(PASSWORD), USER, hides=session)
        ask("old-name-of-the-field", sign_in("wrong", "user"), USER)
        ask("right-again", sign_in(PASSWORD), USER, hides=session)
        ask("batch", [sign_in("wrong"), sign_in("wrong")], door="zabbix-api", shows='"error"')
        ask("batch-of-a-right-one", [sign_in(PASSWORD)], door="zabbix-api", hides=session)
        ask("batch-as-an-object", {"0": sign_in("wrong"), "1": sign_in("wrong")}, door="zabbix-api", shows='"error"')
        version = {"jsonrpc": "2.0", "method": "apiinfo.version", "params": [], "id": 1}
        ask("version", version, door="zabbix-api")


def fill(directory, packed, socket):
    """The tables and two accounts."""
    client = ["mariadb", "--no-defaults", f"--socket={socket}", "--user=root"]
    prepare = "SET GLOBAL innodb_flush_log_at_trx_commit = 0; CREATE DATABASE zabbix CHARACTER SET utf8mb4 COLLATE utf8mb4_bin; "
    prepare += "CREATE USER zabbix@localhost IDENTIFIED BY 'zabbix'; GRANT ALL ON zabbix.* TO zabbix@localhost"
    call([*client, "-e", prepare], directory / "prepare.log")
    hashes = [call(["php", "-r", HASH, word], directory / "hash.log").strip() for word in (PASSWORD, OTHERS_PASSWORD)]
    with gzip.open(packed / "data.sql.gz", "rt") as data:
        data = "".join(line for line in data if WANTED.match(line))
    with gzip.open(packed / "schema.sql.gz", "rt") as schema:
        (directory / "schema.sql").write_text(schema.read())
    people = PEOPLE.format(data=data, first=USER, second=OTHER, first_hash=hashes[0], second_hash=hashes[1])
    (directory / "people.sql").write_text(people)
    for file in ("schema.sql", "people.sql"):
        call([*client, "zabbix", "-e", f"source {directory / file}"], directory / f"{file}.log")


def sign_in(password, field="username"):
    """A call of the API."""
    return {"jsonrpc": "2.0", "method": "user.login", "params": {field: USER, "password": password}, "id": 1}
