"""DokuWiki from Debian on PHP's own server, with its accounts in a file.

Every script of it takes a name and a password from the query or the body.
"""

import re
import shutil
from base64 import b64encode
from contextlib import contextmanager
from urllib.parse import urlencode

from environments import PLACE
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, call, running, wait_until
from recording import Note
from wordpress import SETTINGS

FORM = "/doku.php"
API = "/lib/exe/xmlrpc.php"
SITE = """<?php
$conf['title'] = 'x'; $conf['savedir'] = './data'; $conf['securecookie'] = 0;
$conf['useacl'] = 1; $conf['authtype'] = 'authplain'; $conf['superuser'] = '@admin';
$conf['remote'] = 1; $conf['remoteuser'] = '';
"""
HASH = "echo password_hash($argv[1], PASSWORD_BCRYPT);"


class DokuWiki:
    """A running site."""

    title = "DokuWiki"
    preset = "dokuwiki"
    place = "dokuwiki"
    wrong, right, proves, has_accounts = 403, 302, False, True

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """Two accounts and the server, for the length of the block."""
        root, unpacked = directory / "root", PLACE / "dokuwiki"
        unlinked = {"ignore_dangling_symlinks": True, "dirs_exist_ok": True}
        without = shutil.ignore_patterns("preload.php", "install.php")
        shutil.copytree(unpacked / "usr/share/dokuwiki", root, ignore=without, **unlinked)
        shutil.copytree(unpacked / "var/lib/dokuwiki/lib", root / "lib", **unlinked)
        shutil.copytree(unpacked / "var/lib/dokuwiki/data", root / "data", **unlinked)
        shutil.copytree(unpacked / "etc/dokuwiki", root / "conf", **unlinked)
        for file in (root / "vendor" / "composer").glob("autoload_*.php"):
            file.write_text(file.read_text().replace("'/usr/share/php", f"'{unpacked}/usr/share/php"))
        people = "".join(
            f"{user}:{call(['php', '-r', HASH, password], directory / f'{user}.log').strip()}:x:{user}@app.example:user\n"
            for user, password in ((USER, PASSWORD), (OTHER, OTHERS_PASSWORD))
        )
        for name, text in (("users.auth.php", people), ("acl.auth.php", "* @ALL 1\n"), ("local.php", SITE)):
            (root / "conf" / name).unlink(missing_ok=True)
            (root / "conf" / name).write_text(text)
        command = ["php", *SETTINGS, "-d", f"session.save_path={directory}", "-S", "%s:%d" % address, "-t", str(root)]
        with running("php -S", command, directory / "php.log") as server:
            wait_until(lambda: accepts(address), server)
            yield cls()

    @staticmethod
    def attempt(visitor, user, password, note=None, path=FORM, **others):
        """The form as the page has it."""
        fields = {"do": "login", "id": "start", "u": user, "p": password}
        return visitor.form(path, fields | others, note=note)

    def visits(self, visitor):
        """The form at several addresses and in several spellings, Basic, XML-RPC and mails."""

        def attempt(name, user, password, **others):
            note = Note(name, "failure", user.strip(), "dokuwiki", "")
            return self.attempt(visitor.another(), user, password, note, **others)

        visitor.get(f"{FORM}?id=start&do=login", note=Note("form", "none", shows='name="p"'))
        attempt("wrong-password", USER, "wrong")
        attempt("unknown-account", "nobody", "wrong")
        attempt("right-password", USER, PASSWORD)
        attempt("right-password-elsewhere", USER, PASSWORD, path="/feed.php")
        attempt("right-password-and-remember", USER, PASSWORD, r="1")
        note = Note("right-password-in-the-address", "failure", USER, "dokuwiki", "")
        visitor.another().get(f"{FORM}?{urlencode({'u': USER, 'p': PASSWORD})}", note=note)
        for name, spelling in SPELLINGS.items():
            attempt(f"cleaned-{name}", spelling, PASSWORD)
        self.remembered(visitor.another())
        self.basic(visitor)
        self.xmlrpc(visitor.another())
        fields = {"do": "resendpwd", "save": "1", "login": USER}
        visitor.another().form(FORM, fields, note=Note("lost-password", "failure", USER, "dokuwiki-mail", ""))
        fields = {"do": "register", "save": "1", "login": "nobody", "fullname": "x", "email": f"{USER}@app.example"}
        visitor.another().form(FORM, fields, note=Note("registration", "failure", None, "dokuwiki-mail", ""))
        self.attempt(visitor, USER, PASSWORD)
        visitor.get(f"{FORM}?id=start&do=logout", note=Note("sign-out", "none", shows=""))

    def remembered(self, visitor):
        """Who is remembered gets the cookie again, whatever name stands in the form."""
        self.attempt(visitor, OTHER, OTHERS_PASSWORD, r="1")
        self.attempt(visitor, USER, "wrong", Note("wrong-password-while-signed-in", "failure", USER, "dokuwiki", ""))
        visitor = visitor.another()
        self.attempt(visitor, OTHER, OTHERS_PASSWORD, r="1")
        visitor.cookies = {name: value for name, value in visitor.cookies.items() if re.match("DW", name)}
        note = Note("wrong-password-while-remembered", "failure", USER, "dokuwiki", "")
        visitor.form(FORM, {"do": "login", "u[]": USER, "p": "wrong"}, note=note)

    @staticmethod
    def basic(visitor):
        """Everywhere, and a wrong one is answered like nobody's visit."""
        for name, password in (("right", PASSWORD), ("wrong", "wrong")):
            note = Note(f"basic-{name}", "failure", USER, "dokuwiki-api", "")
            visitor.another().basic(FORM, USER, password, note=note)
        token = b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        note = Note("basic-under-another-name", "failure", None, "dokuwiki-api", "")
        visitor.another().get(FORM, headers={"Authorization": f"Xasic {token}"}, note=note)

    @staticmethod
    def xmlrpc(visitor):
        """One call; its answer is only seen in the body."""
        for name, password in (("wrong", "wrong"), ("right", PASSWORD)):
            params = "".join(f"<param><value><string>{word}</string></value></param>" for word in (USER, password))
            call = f"<methodCall><methodName>dokuwiki.login</methodName><params>{params}</params></methodCall>"
            note = Note(f"xmlrpc-{name}", "failure", None, "dokuwiki-xmlrpc", "<boolean>")
            visitor.another().ask("POST", API, call, "text/xml", note=note)


# All of them are one account: names are cleaned of what a page's name may not have.
SPELLINGS = {
    "capitals": USER.upper(),
    "blanks": f" {USER} ",
    "brackets": f"({USER})!",
    "dots": f"..{USER}_",
    "accents": USER.replace("a", "\u00e1", 1),
}
