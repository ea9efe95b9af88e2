"""Postfix Admin from Debian on PHP's own server, with a database in one file.

Administrators and owners of mailboxes have a form each. A wrong password is answered 200, a right one 302 with the cookie of
a new session.
"""

import shutil
from contextlib import contextmanager

from environments import PLACE
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, call, running, wait_until
from recording import Note
from wordpress import SETTINGS

FORM, OF_USERS = "/login.php", "/users/login.php"
DATABASE = "<?php $dbtype = 'sqlite'; $dbname = '{directory}/db.sqlite'; $dbuser = $dbpass = '';"
CONFIG = """<?php
$CONF['smarty_compile_dir'] = '{directory}';
$CONF['encrypt'] = 'php_crypt:BLOWFISH';
$CONF['forgotten_user_password_reset'] = true;
$CONF['forgotten_admin_password_reset'] = true;
$CONF['setup_password'] = password_hash('setup', PASSWORD_BCRYPT);
"""
PEOPLE = """
define('POSTFIXADMIN_CLI', 1);
chdir($argv[1] . '/public');
require 'upgrade.php';
foreach (array_chunk(array_slice($argv, 2), 2) as [$user, $password]) {
  $person = ['username' => $user, 'password' => pacrypt($password), 'active' => 1];
  db_insert('admin', $person + ['superadmin' => 1]);
  db_insert('mailbox', $person + ['name' => $user, 'maildir' => '', 'local_part' => $user, 'domain' => 'app.example']);
}
"""


class PostfixAdmin:
    """A running site."""

    title = "Postfix Admin"
    preset = "postfixadmin"
    place = "postfixadmin"
    wrong, right, proves, has_accounts = 200, 302, True, True

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """Tables, two people with an account of each kind, and the server, for the length of the block."""
        unpacked, root = PLACE / "postfixadmin", directory / "root"
        without = shutil.ignore_patterns("config.*.php", "templates_c")  # links to places of an installation
        shutil.copytree(unpacked / "usr/share/postfixadmin", root, ignore=without)
        shutil.copy(unpacked / "etc/postfixadmin/config.inc.php", root)
        (root / "templates_c").mkdir()
        (directory / "db.sqlite").touch()
        (root / "dbconfig.inc.php").write_text(DATABASE.format(directory=directory))
        (root / "config.local.php").write_text(CONFIG.format(directory=directory))
        people = (USER, PASSWORD, OTHER, OTHERS_PASSWORD)
        call(["php", *SETTINGS, "-r", PEOPLE, str(root), *people], directory / "people.log")
        command = ["php", *SETTINGS, "-d", f"session.save_path={directory}", "-S", "%s:%d" % address]
        with running("php -S", [*command, "-t", str(root / "public")], directory / "php.log") as server:
            wait_until(lambda: accepts(address), server)
            yield cls()

    @staticmethod
    def attempt(visitor, user, password, note=None, path=FORM, **others):
        """The form as the page has it."""
        token = visitor.keep(visitor.get(path).find('name="token" value="([^"]+)'))
        fields = {"fUsername": user, "fPassword": password, "lang": "en", "token": token}
        return visitor.form(path, fields | others, note=note)

    def visits(self, visitor):
        """Both forms, the password again, codes and mails, the password of the setup."""
        wrong = "password is not correct"

        def attempt(name, expect, user, password, visitor=visitor, **others):
            shows = wrong if password == "wrong" else None if expect == "failure" else ""
            return self.attempt(visitor, user, password, Note(name, expect, user.strip(), "postfixadmin", shows), **others)

        visitor.get(FORM, note=Note("form", "none", shows='name="fPassword"'))
        for kind, path in (("", FORM), ("-of-a-mailbox", OF_USERS)):
            attempt(f"wrong-password{kind}", "failure", USER, "wrong", path=path)
            attempt(f"unknown-account{kind}", "failure", "nobody", "wrong", path=path)
            attempt(f"wrong-token{kind}", "failure", USER, PASSWORD, visitor.another(), path=path, token="x" * 32)
            attempt(f"right-password{kind}", "success", USER, PASSWORD, visitor.another(), path=path)
            attempt(f"right-password-and-blanks{kind}", "success", f" {USER} ", PASSWORD, visitor.another(), path=path)
            attacker = visitor.another()
            self.attempt(attacker, OTHER, OTHERS_PASSWORD, path=path)
            attempt(f"wrong-password-while-signed-in{kind}", "failure", USER, "wrong", attacker, path=path)
        attempt("right-password-and-language", "success", USER, PASSWORD, visitor.another(), lang="de")
        fields = {"fUsername": USER, "fPassword": PASSWORD}
        note = Note("without-a-session", "failure", USER, "postfixadmin", "Invalid token")
        visitor.another().form(FORM, fields, note=note)
        note = Note("without-a-session-of-a-mailbox", "success", USER, "postfixadmin", "")
        visitor.another().form(OF_USERS, fields, note=note)
        self.again(visitor.another())
        self.codes(visitor)
        note = Note("setup", "failure", None, "postfixadmin-setup", "Password verification failed")
        visitor.another().form("/setup.php", {"form": "setuppw", "setup_password": "wrong"}, note=note)

    def again(self, visitor):
        """The password of who is signed in."""
        self.attempt(visitor, USER, PASSWORD, path=OF_USERS)
        token = visitor.keep(visitor.get("/users/password.php").find('name="token" value="([^"]+)'))
        fields = {"fPassword_current": "wrong", "fPassword": "new-password-11", "fPassword2": "new-password-11", "token": token}
        note = Note("password-again", "failure", None, "postfixadmin-again", "current password")
        visitor.form("/users/password.php", fields, note=note)
        self.attempt(visitor, USER, PASSWORD)
        page = "/edit.php?table=adminpassword"
        token = visitor.keep(visitor.get(page).find('name="token" value="([^"]+)'))
        fields = {"value[oldpass]": "wrong", "value[password]": "new-password-11", "value[password2]": "new-password-11"}
        note = Note("password-again-of-an-administrator", "failure", None, "postfixadmin-again", "current password")
        visitor.form(page, fields | {"table": "adminpassword", "token": token}, note=note)

    @staticmethod
    def codes(visitor):
        """A mail with a code, which allows a new password."""
        for kind, place in (("", ""), ("-of-a-mailbox", "/users")):
            note = Note(f"lost-password{kind}", "failure", USER, "postfixadmin-mail", "")
            visitor.another().form(f"{place}/password-recover.php", {"fUsername": USER}, note=note)
            fields = {"fUsername": USER, "fCode": "wrong", "fPassword": "new-password-11", "fPassword2": "new-password-11"}
            note = Note(f"wrong-code{kind}", "failure", USER, "postfixadmin-code", "")
            visitor.another().form(f"{place}/password-change.php", fields, note=note)
