"""Drupal on PHP's own server, with SQLite; its source has to be unpacked in target/apps/drupal."""

import hashlib
import shutil
from contextlib import contextmanager

from environments import PLACE
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, call, running, wait_until
from recording import Note
from wordpress import SETTINGS

FORM = "/user/login"
JSON = "/user/login?_format=json"
SITE = """
[, $user, $password, $other, $others_password] = $argv;
$loader = require 'autoload.php';
require 'core/includes/install.core.inc';
install_drupal($loader, [
  'interactive' => FALSE, 'site_path' => 'sites/default',
  'parameters' => ['profile' => 'minimal', 'langcode' => 'en'],
  'forms' => [
    'install_settings_form' => ['driver' => 'sqlite', 'sqlite' => ['database' => 'sites/default/files/db', 'prefix' => '']],
    'install_configure_form' => [
      'site_name' => 'x', 'site_mail' => 'x@app.example', 'enable_update_status_module' => NULL,
      'account' => ['name' => $user, 'mail' => "$user@app.example", 'pass' => ['pass1' => $password, 'pass2' => $password]],
    ],
  ],
]);
Drupal::service('module_installer')->install(['basic_auth', 'rest', 'jsonapi']);
$person = ['name' => $other, 'mail' => "$other@app.example", 'pass' => $others_password, 'status' => 1];
Drupal\\user\\Entity\\User::create($person)->save();
Drupal::configFactory()->getEditable('user.flood')->set('ip_limit', 10000)->set('user_limit', 10000)->save();
"""


class Drupal:
    """A running site."""

    title = "Drupal"
    preset = "drupal"
    place = "drupal"
    wrong, right, proves, has_accounts = 200, 303, True, True

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """Tables, two accounts and the server, for the length of the block."""
        root = directory / "root"
        shutil.copytree(PLACE / "drupal", root, ignore=shutil.ignore_patterns("tests", "node_modules"))
        settings = root / "sites" / "default" / "settings.php"
        shutil.copy(root / "core/assets/scaffold/files/default.settings.php", settings)
        (settings.parent / "files").mkdir(exist_ok=True)
        (directory / "temporary").mkdir()
        with settings.open("a") as lines:  # an .htaccess is written there, which in /tmp is read by every Apache below
            lines.write(f"$settings['file_temp_path'] = '{directory}/temporary';\n")
        php = ["php", *SETTINGS, "-d", "error_reporting=0", "-d", "memory_limit=512M"]
        call([*php, "-r", SITE, USER, PASSWORD, OTHER, OTHERS_PASSWORD], directory / "install.log", cwd=root, seconds=200)
        command = [*php, "-S", "%s:%d" % address, "-t", str(root), str(root / ".ht.router.php")]
        with running("php -S", command, directory / "php.log", cwd=root) as server:
            wait_until(lambda: accepts(address), server)
            yield cls()

    @staticmethod
    def attempt(visitor, user, password, note=None, path=FORM, **others):
        """The form as the page has it."""
        known = visitor.keep(visitor.get(path).find('name="form_build_id" value="([^"]+)'))
        fields = {"name": user, "pass": password, "form_build_id": known, "form_id": "user_login_form", "op": "Log in"}
        return visitor.form(path, fields | others, note=note)

    def visits(self, visitor):
        """The form and JSON, in several shapes, messages, and Basic."""

        def attempt(name, expect, user, password, guest=None, spelling_of=None, **others):
            note = Note(name, expect, user, "drupal", "", spelling_of)
            return self.attempt(self.evened(guest or visitor.another()), user, password, note, **others)

        def sent(name, expect, user, password, path=JSON, door="drupal"):
            note = Note(name, expect, user, door, members=("/message", "/current_user/uid"))
            self.evened(visitor.another()).json(path, {"name": user, "pass": password}, note=note)

        self.evened(visitor).get(FORM, note=Note("form", "none", shows='name="pass"'))
        attempt("wrong-password", "failure", USER, "wrong")
        attempt("unknown-account", "failure", "nobody", "wrong")
        attempt("right-password", "success", USER, PASSWORD)
        attempt("spelling-capitals", "success", USER.upper(), PASSWORD, spelling_of=USER)
        attempt("right-password-wrong-form", "failure", USER, PASSWORD, form_id="user_login_block")
        note = Note("right-password-below-index", "success", USER, "drupal drupal-block", "")
        self.attempt(self.evened(visitor.another()), USER, PASSWORD, note, f"/index.php{FORM}")
        attacker = self.evened(visitor.another())
        self.attempt(attacker, OTHER, OTHERS_PASSWORD)
        note = Note("wrong-password-while-signed-in", "failure", USER, "drupal", "")
        fields = {"name": USER, "pass": "wrong", "form_id": "user_login_form", "op": "Log in"}
        attacker.form(FORM, fields, note=note)
        sent("json-wrong", "failure", USER, "wrong")
        sent("json-right", "success", USER, PASSWORD)
        for name, path, fields in (
            ("lost-password", "/user/password", {"name": USER, "form_id": "user_pass", "op": "Submit"}),
            ("registration", "/user/register", {"mail": USER, "form_id": "user_register_form", "op": "x"}),
        ):
            guest = self.evened(visitor.another())
            page = guest.get(path)
            if page.status == 200:
                fields["form_build_id"] = guest.keep(page.find('name="form_build_id" value="([^"]+)'))
            guest.form(path, fields, note=Note(name, "failure", USER, "drupal-mail", ""))
        note = Note("lost-password-by-json", "failure", USER, "drupal-mail", "")
        self.evened(visitor.another()).json("/user/password?_format=json", {"name": USER}, note=note)
        role = "/jsonapi/user_role/user_role"
        role = visitor.another().basic(role, USER, PASSWORD).json("data", 0, "links", "self", "href")
        role = f"/{role.split('/', 3)[3]}"
        for name, path, expect, password in (
            ("right", role, "neutral", PASSWORD),
            ("wrong", role, "failure", "wrong"),
            ("wrong-on-an-open-page", "/jsonapi", "neutral", "wrong"),
        ):
            note = Note(f"basic-{name}", expect, USER, "drupal-api", "")
            guest = self.evened(visitor.another())
            guest.keep(role.rsplit("/", 1)[1])
            guest.basic(path, USER, password, note=note)

    @staticmethod
    def evened(visitor):
        """The name of the session's cookie is made from the host's."""
        host = "%s:%d" % visitor.address
        visitor.keep(f"SESS{hashlib.sha256(visitor.address[0].encode()).hexdigest()[:32]}", "SESS0123456789abcdef")
        visitor.keep(f"SESS{hashlib.sha256(host.encode()).hexdigest()[:32]}", "SESS0123456789abcdef")
        return visitor
