"""qBittorrent from Debian without a window: one account, and a sign-in that answers 200 to right and wrong passwords."""

import hashlib
import os
from base64 import b64encode
from contextlib import contextmanager

from environments import PLACE
from person import PASSWORD, USER
from processes import accepts, running, wait_until
from recording import Note

FORM = "/api/v2/auth/login"
CONFIG = r"""[LegalNotice]
Accepted=true

[BitTorrent]
Session\DHTEnabled=false
Session\LSDEnabled=false
Session\PeXEnabled=false
Session\Interface=lo

[Network]
PortForwardingEnabled=false

[Preferences]
WebUI\Address={host}
WebUI\Port={port}
WebUI\Username={user}
WebUI\Password_PBKDF2="@ByteArray({salt}:{hash})"
WebUI\HostHeaderValidation=false
WebUI\ReverseProxySupportEnabled=true
WebUI\TrustedReverseProxiesList=127.0.0.1
"""


class QBittorrent:
    """A running server."""

    title = "qBittorrent"
    preset = "qbittorrent"
    place = "qbittorrent"
    wrong, right, proves, has_accounts = 200, 200, True, True

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """One account and the server, for the length of the block."""
        unpacked, config = PLACE / "qbittorrent", directory / "qBittorrent" / "config"
        config.mkdir(parents=True)
        salt = os.urandom(16)
        key = hashlib.pbkdf2_hmac("sha512", PASSWORD.encode(), salt, 100_000)
        words = {"host": address[0], "port": address[1], "user": USER}
        words |= {"salt": b64encode(salt).decode(), "hash": b64encode(key).decode()}
        (config / "qBittorrent.conf").write_text(CONFIG.format(**words))
        (libraries,) = unpacked.glob("usr/lib/*-linux-gnu")
        env = {"LD_LIBRARY_PATH": str(libraries), "QT_PLUGIN_PATH": str(libraries / "qt5" / "plugins"), "HOME": str(directory)}
        command = [str(unpacked / "usr/bin/qbittorrent-nox"), f"--profile={directory}"]
        with running("qbittorrent-nox", command, directory / "qbittorrent.log", env) as server:
            wait_until(lambda: accepts(address), server)
            yield cls()

    @staticmethod
    def attempt(visitor, user, password, note=None, **others):
        """What the page sends."""
        return visitor.form(FORM, {"username": user, "password": password} | others, note=note)

    def visits(self, visitor):
        """Sign-ins until an address is refused: the application does so after five."""
        numbers = iter(range(1, 100))

        def attempt(name, expect, user, password, guest=None, **others):
            guest = guest or visitor.another(f"127.8.0.{next(numbers)}")
            return self.attempt(guest, user, password, Note(name, expect, user, "qbittorrent"), **others)

        visitor.get("/", note=Note("form", "none", shows='id="password"'))
        attempt("wrong-password", "failure", USER, "wrong")
        attempt("unknown-account", "failure", "nobody", PASSWORD)
        attempt("empty", "failure", "", "")
        attempt("capitals-are-another-account", "failure", USER.upper(), PASSWORD)
        guest = visitor.another()
        attempt("right-password", "success", USER, PASSWORD, guest)
        guest.get("/api/v2/app/version", note=Note("page-behind-the-right-password", "none"))
        attempt("wrong-password-while-signed-in", "failure", "nobody", "wrong", guest)
        query = f"{FORM}?username={USER}&password={PASSWORD}"
        note = Note("right-password-in-the-address", "failure", USER, "qbittorrent")
        visitor.another().get(query, note=note)
        note = Note("right-password-in-the-address-of-a-form", "failure", USER, "qbittorrent")
        visitor.another("127.8.1.1").form(query, {}, note=note)
        locked = visitor.another("127.8.1.2")
        for _ in range(5):
            self.attempt(locked, USER, "wrong")
        attempt("refused-address", "failure", USER, PASSWORD, locked)
        guest.form("/api/v2/auth/logout", {}, note=Note("sign-out", "none"))
