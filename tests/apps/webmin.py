"""Webmin on its own server, with one module; its source has to be unpacked in target/apps/webmin."""

import shutil
from base64 import b64encode
from contextlib import contextmanager

from environments import PLACE
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, call, running, wait_until
from recording import Note

FORM = "/session_login.cgi"
HASH = 'print crypt($ARGV[0], "\\$1\\$abcdefgh")'
OS = "os_type=debian-linux\nos_version=12\nreal_os_type=Debian Linux\nreal_os_version=12\nlang=en\ntheme=\n"


class Webmin:
    """A running server."""

    title = "Webmin"
    preset = "webmin"
    place = "webmin"
    wrong, right, proves, has_accounts = 200, 302, True, True

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """Two accounts and the server, for the length of the block."""
        root, etc, var = directory / "root", directory / "etc", directory / "var"
        shutil.copytree(PLACE / "webmin", root, ignore_dangling_symlinks=True)
        etc.mkdir()
        var.mkdir()
        (etc / "config").write_text((root / "config-debian-linux").read_text() + "\n" + OS)
        (etc / "perl-path").write_text("/usr/bin/perl\n")
        (etc / "var-path").write_text(f"{var}\n")
        shutil.copy(root / "version", etc)
        people = ((USER, PASSWORD), (OTHER, OTHERS_PASSWORD))
        hashes = [call(["perl", "-e", HASH, password], directory / "hash.log").strip() for _, password in people]
        users = "".join(f"{user}:{hashed}:0\n" for (user, _), hashed in zip(people, hashes))
        (etc / "miniserv.users").write_text(users)
        (etc / "webmin.acl").write_text("".join(f"{user}: acl\n" for user, _ in people))
        (etc / "miniserv.conf").write_text("".join(f"{key}={value}\n" for key, value in settings(directory, address).items()))
        env = {"WEBMIN_CONFIG": str(etc), "WEBMIN_VAR": str(var)}
        command = ["perl", "miniserv.pl", "--nofork", str(etc / "miniserv.conf")]
        with running("webmin", command, directory / "webmin.log", env, root) as server:
            wait_until(lambda: accepts(address), server)
            yield cls()

    @staticmethod
    def attempt(visitor, user, password, note=None, **others):
        """The form as the page has it, whose cookie says that there are cookies."""
        visitor.cookies.setdefault("testing", "1")
        return visitor.form(FORM, {"user": user, "pass": password, "page": "/"} | others, note=note)

    def visits(self, visitor):
        """The form, in other spellings and with a session of somebody else, and Basic for programs."""

        def attempt(name, expect, user, password, visitor=None, door="webmin", spelling_of=None, **others):
            # The first of two endpoints names no account.
            note = Note(name, expect, user.strip() if door == "webmin" else None, door, "", spelling_of)
            return self.attempt(visitor or first.another(), user, password, note, **others)

        first = visitor
        visitor.get("/", note=Note("form", "none", shows=""))
        attempt("wrong-password", "failure", USER, "wrong")
        attempt("unknown-account", "failure", "nobody", "wrong")
        attempt("empty", "failure", "", "")
        note = Note("without-cookies", "failure", USER, "webmin", "")
        visitor.another().form(FORM, {"user": USER, "pass": PASSWORD}, note=note)
        attempt("right-password", "success", USER, PASSWORD, visitor)
        attempt("spelling-capitals", "success", USER.upper(), PASSWORD, spelling_of=USER)
        attempt("spelling-blanks", "success", f" {USER} ", PASSWORD, spelling_of=USER)
        query = f"{FORM}?user={USER}&pass={PASSWORD}"
        by_get = visitor.another()
        by_get.cookies["testing"] = "1"
        by_get.get(query, note=Note("right-password-in-the-address", "success", USER, "webmin", ""))
        attacker = visitor.another()
        self.attempt(attacker, OTHER, OTHERS_PASSWORD)
        attempt("wrong-password-while-signed-in", "failure", USER, "wrong", attacker)
        session = attacker.keep(attacker.cookies["sid"])
        attempt("with-a-session-of-another", "failure", USER, "wrong", attacker, "webmin-link webmin", session=session)
        self.basic(visitor.another())
        visitor.get(f"{FORM}?logout=1", note=Note("sign-out", "none", shows=""))

    @staticmethod
    def basic(visitor):
        """Only for who says that it is Webmin."""
        for name, agent, password, expect in (
            ("basic-right", "Webmin", PASSWORD, "neutral"),
            ("basic-wrong", "Webmin", "wrong", "failure"),
            ("basic-of-a-browser", "any", "wrong", "neutral"),
        ):
            note = Note(name, expect, USER, "webmin-basic", "")
            # It changes what the connection may do, so each has its own.
            credentials = b64encode(f"{USER}:{password}".encode()).decode()
            headers = {"User-Agent": agent, "Authorization": f"Basic {credentials}"}
            visitor.another().get("/acl/", headers=headers, note=note)


def settings(directory, address):
    """No mail, no network but the listener, and no block of an address after some failures."""
    root, etc, var = (directory / part for part in ("root", "etc", "var"))
    return {
        "port": address[1],
        "bind": address[0],
        "root": root,
        "mimetypes": root / "mime.types",
        "addtype_cgi": "internal/cgi",
        "realm": "Webmin Server",
        "logfile": var / "miniserv.log",
        "errorlog": var / "miniserv.error",
        "pidfile": var / "miniserv.pid",
        "ssl": 0,
        "ipv6": 0,
        "env_WEBMIN_CONFIG": etc,
        "env_WEBMIN_VAR": var,
        "session": 1,
        "userfile": etc / "miniserv.users",
        "passwd_mode": 0,
        "server": "MiniServ",
        "no_pam": 1,
        "passdelay": 0,
    }
