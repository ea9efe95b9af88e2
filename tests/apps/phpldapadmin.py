"""phpLDAPadmin from Debian on PHP's own server, before an LDAP server of its own."""

import shutil
from contextlib import contextmanager
from glob import glob

from environments import PLACE
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, call, free_address, running, wait_until
from recording import Note
from wordpress import SETTINGS

FORM = "/cmd.php"
SLAPD = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {directory}/slapd.pid
database mdb
suffix "dc=app,dc=example"
rootdn "cn=admin,dc=app,dc=example"
directory {directory}/db
"""
BASE = "dn: dc=app,dc=example\nobjectClass: dcObject\nobjectClass: organization\ndc: app\no: app\n\n"
PERSON = "dn: uid={0},dc=app,dc=example\nobjectClass: inetOrgPerson\nuid: {0}\ncn: {0}\nsn: {0}\nuserPassword: {1}\n\n"
CONFIG = """<?php
$config->custom->session['blowfish'] = 'a throw-away server has no secret';
$servers = new Datastore();
$servers->newServer('ldap_pla');
$servers->setValue('server', 'host', '{host}');
$servers->setValue('server', 'port', {port});
$servers->setValue('server', 'base', array('dc=app,dc=example'));
$servers->setValue('login', 'auth_type', 'session');
$servers->setValue('login', 'attr', 'uid');
"""
# It puts `::` between ciphertext, random bytes and tag, and splits there. Where the random bytes end with a colon, which is one
# sign-in in 128, it answers 500; here they are hexadecimal digits.
NO_COLON = (
    "openssl_random_pseudo_bytes(openssl_cipher_iv_length(SESSION_CIPHER))",
    "substr(bin2hex(random_bytes(16)), 0, openssl_cipher_iv_length(SESSION_CIPHER))",
)


class PhpLdapAdmin:
    """A running site."""

    title = "phpLDAPadmin"
    preset = "phpldapadmin"
    place = "phpldapadmin"
    wrong, right, proves, has_accounts = 302, 302, False, True

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """Directory, two people and the server, for the length of the block."""
        unpacked, root, ldap = PLACE / "phpldapadmin", directory / "root", free_address()
        shutil.copytree(unpacked / "usr/share/phpldapadmin", root, ignore_dangling_symlinks=True)
        functions = root / "lib" / "functions.php"
        text = functions.read_text()
        assert NO_COLON[0] in text, "this version makes its random bytes elsewhere"
        functions.write_text(text.replace(*NO_COLON))
        (root / "config").mkdir(exist_ok=True)
        (root / "config" / "config.php").write_text(CONFIG.replace("{host}", ldap[0]).replace("{port}", str(ldap[1])))
        (directory / "slapd.conf").write_text(SLAPD.format(directory=directory))
        (directory / "db").mkdir()
        people = ((USER, PASSWORD), (OTHER, OTHERS_PASSWORD))
        (directory / "people.ldif").write_text(BASE + "".join(PERSON.format(*person) for person in people))
        config = ["-f", str(directory / "slapd.conf")]
        call(["slapadd", *config, "-l", str(directory / "people.ldif")], directory / "slapadd.log")
        # The debug level keeps it in the foreground.
        slapd = ["slapd", *config, "-d", "0", "-h", "ldap://%s:%d/" % ldap]
        (extension,) = glob(f"{unpacked}/usr/lib/php/*/ldap.so")
        php = ["php", *SETTINGS, "-d", f"extension={extension}", "-d", f"session.save_path={directory}"]
        command = [*php, "-S", "%s:%d" % address, "-t", str(root / "htdocs")]
        with running("slapd", slapd, directory / "slapd.log") as server:
            wait_until(lambda: accepts(ldap), server)
            with running("php -S", command, directory / "php.log") as server:
                wait_until(lambda: accepts(address), server)
                yield cls()

    @staticmethod
    def attempt(visitor, user, password, note=None, path=FORM, **others):
        """The form, in a session that a page has opened."""
        if not visitor.cookies:
            visitor.get("/index.php")
            visitor.get("/index.php")
        fields = {"cmd": "login", "server_id": "1", "nodecode[login_pass]": "1", "login": user, "login_pass": password}
        return visitor.form(path, fields | others, note=note)

    def visits(self, visitor):
        """Sign-ins, in spellings that are the same person, and what is answered like one."""

        def attempt(name, user, password, path=FORM, **others):
            self.attempt(visitor.another(), user, password, Note(name, "failure", user, "phpldapadmin", ""), path, **others)

        page = visitor.another()
        page.get("/index.php")
        page.get("/cmd.php?cmd=login_form&server_id=1", note=Note("form", "none", shows='name="login_pass"'))
        attempt("wrong-password", USER, "wrong")
        attempt("unknown-account", "nobody", "wrong")
        attempt("empty", "", "")
        attempt("right-password", USER, PASSWORD)
        attempt("right-password-elsewhere", USER, PASSWORD, "/login.php")
        attempt("capitals", USER.upper(), PASSWORD)
        # The name is decoded once more, and goes into a filter of the directory.
        attempt("spelling-octets", f"%{ord(USER[0]):02x}{USER[1:]}", PASSWORD)
        attempt("spelling-pattern", f"{USER[:3]}*", PASSWORD)
        attempt("no-sign-in-is-redirected-alike", USER, "wrong", cmd="refresh")
        note = Note("without-a-session", "failure", USER, "phpldapadmin", "")
        visitor.another().form(FORM, {"cmd": "login", "server_id": "1", "login": USER, "login_pass": PASSWORD}, note=note)
        anonymous = visitor.another()
        anonymous.get("/index.php")
        fields = {"cmd": "login", "server_id": "1", "anonymous_bind": "on", "login_pass": "wrong"}
        note = Note("nobody-is-redirected-alike", "failure", USER, "phpldapadmin", "")
        anonymous.form(f"{FORM}?login={USER}", fields, note=note)
        attacker = visitor.another()
        self.attempt(attacker, OTHER, OTHERS_PASSWORD)
        self.attempt(attacker, USER, "wrong", Note("wrong-password-while-signed-in", "failure", USER, "phpldapadmin", ""))
        attacker.get("/cmd.php?cmd=logout&server_id=1", note=Note("sign-out", "none", shows=""))
