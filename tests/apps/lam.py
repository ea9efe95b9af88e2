"""LDAP Account Manager from Debian on PHP's own server, before an LDAP server of its own."""

import shutil
from contextlib import contextmanager

from environments import PLACE
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from phpldapadmin import BASE, PERSON, SLAPD
from processes import accepts, call, free_address, running, wait_until
from recording import Note
from wordpress import SETTINGS

FORM = "/templates/login.php"
SEARCH = """
ServerURL: ldap://{host}:{port}
loginMethod: search
loginSearchSuffix: dc=app,dc=example
loginSearchFilter: uid=%USER%
"""


class AccountManager:
    """A running site."""

    title = "LDAP Account Manager"
    preset = "lam"
    place = "lam"
    wrong, right, proves, has_accounts = 403, 302, True, True

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """Directory, two people and the server, for the length of the block."""
        unpacked, root, ldap = PLACE / "lam", directory / "root", free_address()
        unlinked = {"ignore_dangling_symlinks": True, "dirs_exist_ok": True}
        shutil.copytree(unpacked / "usr/share/ldap-account-manager", root, **unlinked)
        shutil.copytree(unpacked / "var/lib/ldap-account-manager", root, **unlinked)
        shutil.copy(unpacked / "etc/ldap-account-manager/config.cfg", root / "config" / "config.cfg")
        profile = (root / "config" / "unix.sample.conf").read_text()
        profile = "".join(line for line in profile.splitlines(True) if not line.startswith("ServerURL:"))
        (root / "config" / "lam.conf").write_text(profile + SEARCH.format(host=ldap[0], port=ldap[1]))
        (directory / "slapd.conf").write_text(SLAPD.format(directory=directory))
        (directory / "db").mkdir()
        people = ((USER, PASSWORD), (OTHER, OTHERS_PASSWORD))
        (directory / "people.ldif").write_text(BASE + "".join(PERSON.format(*person) for person in people))
        config = ["-f", str(directory / "slapd.conf")]
        call(["slapadd", *config, "-l", str(directory / "people.ldif")], directory / "slapadd.log")
        slapd = ["slapd", *config, "-d", "0", "-h", "ldap://%s:%d/" % ldap]
        extensions = [str(next(unpacked.glob(f"usr/lib/php/*/{name}.so"))) for name in ("ldap", "gmp", "zip")]
        libraries = {"LD_LIBRARY_PATH": str(next(unpacked.glob("usr/lib/*/libzip.so.4")).parent)}
        php = ["php", *SETTINGS, "-d", f"session.save_path={directory}"]
        php += [word for name in extensions for word in ("-d", f"extension={name}")]
        command = [*php, "-S", "%s:%d" % address, "-t", str(root)]
        with running("slapd", slapd, directory / "slapd.log") as server:
            wait_until(lambda: accepts(ldap), server)
            with running("php -S", command, directory / "php.log", libraries) as server:
                wait_until(lambda: accepts(address), server)
                yield cls()

    @staticmethod
    def attempt(visitor, user, password, note=None, path=FORM, **others):
        """The form, in a session that its page has opened."""
        if not visitor.cookies:
            visitor.get(FORM)
        fields = {"username": user, "passwd": password, "language": "en_GB.utf8", "checklogin": ""}
        return visitor.form(path, fields | others, note=note)

    def visits(self, visitor):
        """The form, and the passwords of the configuration."""

        def attempt(name, user, password, guest=None, spelling_of=None, **others):
            expect = "success" if password == PASSWORD else "failure"
            note = Note(name, expect, user, "lam", "", spelling_of)
            self.attempt(guest or visitor.another(), user, password, note, **others)

        visitor.get(FORM, note=Note("form", "none", shows='name="passwd"'))
        attempt("wrong-password", USER, "wrong")
        attempt("unknown-account", "nobody", "wrong")
        attempt("empty", USER, "")
        attempt("right-password", USER, PASSWORD)
        attempt("right-password-and-remember", USER, PASSWORD, rememberLogin="on")
        attempt("right-password-behind-the-script", USER, PASSWORD, path=f"{FORM}/x")
        attempt("spelling-capitals", USER.upper(), PASSWORD, spelling_of=USER)
        attacker = visitor.another()
        self.attempt(attacker, OTHER, OTHERS_PASSWORD)
        attempt("wrong-password-while-signed-in", USER, "wrong", attacker)
        for name, password in (("wrong", "wrong"), ("right", "lam")):
            for place, page in (("profile", "confmain"), ("general", "mainlogin")):
                note = Note(f"{place}-{name}", "failure", None, "lam-configuration", "")
                guest = visitor.another()
                guest.get("/templates/config/conflogin.php")
                guest.form(f"/templates/config/{page}.php", {"passwd": password, "filename": "lam"}, note=note)
        note = Note("code", "failure", None, "lam-second", "")
        attacker = visitor.another()
        self.attempt(attacker, OTHER, OTHERS_PASSWORD)
        attacker.form("/templates/login2Factor.php", {"2factor": "000000", "submit": "x"}, note=note)
