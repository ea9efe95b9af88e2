"""SimpleSAMLphp from Debian on PHP's own server, with accounts in its configuration.

The form belongs to a state that a page of the service begins, and takes its fields by any method.
"""

from contextlib import contextmanager
from urllib.parse import parse_qs, urlencode, urlsplit

from environments import PLACE
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, running, wait_until
from recording import Note
from wordpress import SETTINGS

SERVICE = "/simplesamlphp/module.php"
FORM = f"{SERVICE}/core/loginuserpass.php"
CONFIG = """$config = array_merge($config, [
  'baseurlpath' => 'simplesamlphp/', 'tempdir' => '%(place)s/tmp', 'loggingdir' => '%(place)s', 'datadir' => '%(place)s',
  'logging.handler' => 'errorlog', 'session.phpsession.savepath' => '%(place)s', 'session.cookie.secure' => false,
  'session.cookie.samesite' => null, 'auth.adminpassword' => 'administrator', 'secretsalt' => 'made-up',
  'statistics.out' => [], 'module.enable' => ['authcrypt' => true, 'core' => true],
]);
"""
PEOPLE = """<?php
$config = ['admin' => ['core:AdminPassword'], 'people' => ['authcrypt:Hash']];
foreach (%(people)s as $user => $password) {
  $config['people']["$user:" . password_hash($password, PASSWORD_BCRYPT, ['cost' => 4])] = ['uid' => [$user]];
}
"""


class SimpleSaml:
    """A running service."""

    title = "SimpleSAMLphp"
    preset = "simplesamlphp"
    place = "simplesamlphp"
    wrong, right, proves, has_accounts = 200, 303, True, True

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """Configuration, two accounts and the server, for the length of the block."""
        unpacked, root, config = PLACE / "simplesamlphp", directory / "root", directory / "config"
        for place in (root, config, directory / "tmp"):
            place.mkdir()
        (root / "simplesamlphp").symlink_to(unpacked / "usr/share/simplesamlphp/www")
        words = {"place": directory, "people": f"['{USER}' => '{PASSWORD}', '{OTHER}' => '{OTHERS_PASSWORD}']"}
        default = (unpacked / "etc/simplesamlphp/config.php").read_text()
        default = default.replace("require_once('/var/lib/simplesamlphp/secrets.inc.php');", "")  # of an installation
        (config / "config.php").write_text(default + CONFIG % words)
        (config / "authsources.php").write_text(PEOPLE % words)
        command = ["php", *SETTINGS, "-S", "%s:%d" % address, "-t", str(root)]
        env = {"SIMPLESAMLPHP_CONFIG_DIR": str(config)}
        with running("php -S", command, directory / "php.log", env) as server:
            wait_until(lambda: accepts(address), server)
            yield cls()

    @staticmethod
    def state(visitor, source="people"):
        """The state that a page begins."""
        page = f"{SERVICE}/core/authenticate.php?as={source}"
        target = dict(visitor.get(page).fields)["Location"]
        state = parse_qs(urlsplit(target).query)["AuthState"][0]
        return visitor.keep(state.partition(":")[0])  # what follows is where to begin again

    @classmethod
    def attempt(cls, visitor, user, password, note=None, source="people", **others):
        """The form as the page has it."""
        fields = {"username": user, "password": password, "AuthState": cls.state(visitor, source)}
        return visitor.form(f"{FORM}?", fields | others, note=note)

    def visits(self, visitor):
        """The form, by several methods, of two sources, and Basic."""

        def attempt(name, expect, user, password, guest=None, **others):
            note = Note(name, expect, user, "simplesamlphp", "" if expect == "success" else None)
            return self.attempt(guest or visitor.another(), user, password, note, **others)

        guest = visitor.another()
        state = self.state(guest)
        note = Note("form", "none", shows='name="password"')
        guest.get(f"{FORM}?{urlencode({'AuthState': state})}", note=note)
        attempt("wrong-password", "failure", USER, "wrong")
        attempt("unknown-account", "failure", "nobody", "wrong")
        attempt("empty", "failure", "", "")
        attempt("capitals-are-another-account", "failure", USER.upper(), PASSWORD)
        attempt("unknown-state", "failure", USER, PASSWORD, AuthState="_made-up")
        attempt("right-password", "success", USER, PASSWORD)
        attempt("wrong-password-of-the-administrator", "failure", "admin", "wrong", source="admin")
        attempt("right-password-of-the-administrator", "success", "admin", "administrator", source="admin")
        attacker = visitor.another()
        self.attempt(attacker, OTHER, OTHERS_PASSWORD)
        attempt("wrong-password-while-signed-in", "failure", USER, "wrong", attacker, source="admin")
        for name, expect, password in (("right", "success", PASSWORD), ("wrong", "failure", "wrong")):
            guest = visitor.another()
            query = urlencode({"username": USER, "password": password, "AuthState": self.state(guest)})
            note = Note(f"{name}-password-in-the-address", expect, USER, "simplesamlphp", "")
            guest.get(f"{FORM}?{query}", note=note)
        note = Note("basic", "failure", USER, "simplesamlphp-basic", "")
        visitor.another().basic("/simplesamlphp/index.php", USER, "wrong", note=note)
