"""Moodle on PHP's own server, before a MariaDB of its own; its source has to be unpacked in target/apps/moodle."""

import shutil
from contextlib import contextmanager
from urllib.parse import urlencode

from environments import PLACE
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, call, running, url, wait_until
from recording import Note
from wordpress import SETTINGS, database

EXTENSIONS = PLACE / "lam"  # PHP's, from Debian
FORM = "/login/index.php"
TOKEN = "/login/token.php"
SERVICE = "/webservice/rest/simpleserver.php"
CONFIG = """<?php
$CFG = new stdClass();
$CFG->dbtype = 'mariadb'; $CFG->dblibrary = 'native'; $CFG->dbhost = 'localhost'; $CFG->prefix = 'm_';
$CFG->dbname = 'wordpress'; $CFG->dbuser = 'wordpress'; $CFG->dbpass = getenv('APP_DB_PASSWORD');
$CFG->dboptions = ['dbsocket' => getenv('APP_DB_SOCKET'), 'dbcollation' => 'utf8mb4_general_ci'];
$CFG->wwwroot = '{site}'; $CFG->dataroot = '{data}'; $CFG->directorypermissions = 02777;
$CFG->noemailever = true; $CFG->reverseproxy = {proxy}; $CFG->lockoutthreshold = 0;
require_once(__DIR__ . '/lib/setup.php');
"""
PEOPLE = """<?php
define('CLI_SCRIPT', true);
require 'config.php';
foreach (array_chunk(array_slice($argv, 1), 2) as [$user, $password]) {
  $person = create_user_record($user, $password);
  $DB->update_record('user', ['id' => $person->id, 'firstname' => 'x', 'lastname' => 'x', 'email' => "$user@app.example"]);
}
set_config('enablewebservices', 1);
set_config('webserviceprotocols', 'rest');
set_config('enablemobilewebservice', 1);
set_config('auth', 'email,webservice');
set_config('registerauth', 'email');
$DB->set_field('external_services', 'enabled', 1, ['shortname' => 'moodle_mobile_app']);
$role = $DB->get_field('role', 'id', ['shortname' => 'user']);
assign_capability('webservice/rest:use', CAP_ALLOW, $role, context_system::instance()->id);
purge_all_caches();
"""


class Moodle:
    """A running site."""

    title = "Moodle"
    preset = "moodle"
    place = "moodle"
    wrong, right, proves, has_accounts = 303, 303, True, True

    @classmethod
    @contextmanager
    def start(cls, directory, address, site):
        """Tables, two accounts and the server, for the length of the block."""
        root, data = directory / "root", directory / "data-of-moodle"
        shutil.copytree(PLACE / "moodle", root, symlinks=True, ignore=shutil.ignore_patterns("tests", "*.map"))
        data.mkdir()
        words = {"{site}": site, "{data}": str(data), "{proxy}": "false" if site == url(address) else "true"}
        config = CONFIG
        for word, value in words.items():
            config = config.replace(word, value)
        (root / "config.php").write_text(config)
        (root / "people.php").write_text(PEOPLE)
        zip_extension = next(EXTENSIONS.glob("usr/lib/php/*/zip.so"))
        php = ["php", *SETTINGS, "-d", f"extension={zip_extension}", "-d", "max_input_vars=5000", "-d", "memory_limit=512M"]
        with database(directory) as env:
            env["LD_LIBRARY_PATH"] = str(next(EXTENSIONS.glob("usr/lib/*/libzip.so.4")).parent)
            words = {"adminuser": "admin", "adminpass": "x", "adminemail": "admin@app.example"}
            words |= {"fullname": "x", "shortname": "x"}
            options = [f"--{key}={word}" for key, word in words.items()]
            install = [*php, "admin/cli/install_database.php", "--agree-license", *options]
            call(install, directory / "install.log", env, root, seconds=400)
            call([*php, "people.php", USER, PASSWORD, OTHER, OTHERS_PASSWORD], directory / "people.log", env, root)
            command = [*php, "-S", "%s:%d" % address, "-t", str(root)]
            env |= {"PHP_CLI_SERVER_WORKERS": "2"}
            with running("php -S", command, directory / "php.log", env) as server:
                wait_until(lambda: accepts(address), server)
                yield cls()

    @staticmethod
    def attempt(visitor, user, password, note=None, path=FORM, **others):
        """The form as the page has it."""
        token = visitor.keep(visitor.get(FORM).find('name="logintoken" value="([^"]+)'))
        fields = {"anchor": "", "logintoken": token, "username": user, "password": password}
        return visitor.form(path, fields | others, note=note)

    def visits(self, visitor):
        """The form, tokens, web services, messages, and what asks once more."""

        def attempt(name, expect, user, password, guest=None, spelling_of=None, **others):
            note = Note(name, expect, user, "moodle", "", spelling_of)
            return self.attempt(guest or visitor.another(), user, password, note, **others)

        visitor.get(FORM, note=Note("form", "none", shows='name="password"'))
        attempt("wrong-password", "failure", USER, "wrong")
        attempt("unknown-account", "failure", "nobody", "wrong")
        attempt("wrong-token", "failure", USER, PASSWORD, logintoken="x" * 32)
        attempt("right-password", "success", USER, PASSWORD, owner := visitor.another())
        attempt("spelling-capitals", "success", f" {USER.upper()} ".strip(), PASSWORD, spelling_of=USER)
        note = Note("wrong-password-while-signed-in", "failure", OTHER, "moodle", "")
        token = owner.keep(visitor.another().get(FORM).find('name="logintoken" value="([^"]+)'))
        owner.form(FORM, {"username": OTHER, "password": "wrong", "logintoken": token}, note=note)
        for name, expect, password in (("wrong", "failure", "wrong"), ("right", "success", PASSWORD)):
            fields = {"username": USER, "password": password, "service": "moodle_mobile_app"}
            secret = '"token":"([^"]+)' if expect == "success" else None
            members = ("/errorcode", "/token")
            note = Note(f"token-{name}", expect, USER, "moodle-token", hides=secret, members=members)
            visitor.another().form(TOKEN, fields, note=note)
            note = Note(f"webservice-{name}", "failure", USER, "moodle-webservice", "")
            query = urlencode({"wsusername": USER, "wspassword": password, "wsfunction": "core_webservice_get_site_info"})
            visitor.another().get(f"{SERVICE}?{query}", note=note)
        page = owner.get("/login/change_password.php?id=1")
        key = owner.keep(page.find('name="sesskey" type="hidden" value="([^"]+)'))
        fields = {"id": "1", "sesskey": key, "_qf__login_change_password_form": "1", "submitbutton": "x"}
        fields |= {"password": "wrong", "newpassword1": "x", "newpassword2": "x"}
        note = Note("password-again", "failure", None, "moodle-second", "Invalid login")
        owner.form("/login/change_password.php", fields, note=note)
        both = {"username": USER, "email": f"{USER}@app.example"}
        for name, path, form, fields, user in (
            ("lost-password", "/login/forgot_password.php", "login_forgot_password_form", {"username": USER}, USER),
            ("registration", "/login/signup.php", "login_signup_form", both, None),
        ):
            guest = visitor.another()
            key = guest.keep(guest.get(path).find('name="sesskey" type="hidden" value="([^"]+)'))
            fields |= {"sesskey": key, f"_qf__{form}": "1", "submitbutton": "x", "submitbuttonusername": "x"}
            guest.form(path, fields, note=Note(name, "failure", user, "moodle-mail", ""))
