"""phpMyAdmin from Debian on PHP's own server, before a MariaDB of its own.

It takes the fields of its form at every address, and answers 200 to a wrong password and 302 to a right one.
"""

import shutil
from contextlib import contextmanager
from pathlib import Path

from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, call, running, wait_until
from recording import Note
from wordpress import SETTINGS, database

FILES = Path(__file__).parent / "phpmyadmin"
FORM = "/index.php?route=/"
ELSEWHERE = "/index.php?route=/sql"


class PhpMyAdmin:
    """A running site."""

    title = "phpMyAdmin"
    preset = "phpmyadmin"

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """Database, two accounts and the server, for the length of the block."""
        root = directory / "root"
        shutil.copytree("/usr/share/phpmyadmin", root, ignore=shutil.ignore_patterns("locale", "doc"))
        vendor = root / "libraries" / "vendor_config.php"
        text = vendor.read_text().replace("/etc/phpmyadmin/config.inc.php", str(FILES / "config.inc.php"))
        vendor.write_text(text.replace("/var/lib/phpmyadmin/tmp/", f"{directory}/"))
        with database(directory) as env:
            accounts = "".join(
                f"CREATE USER {user}@localhost IDENTIFIED BY '{password}';\n"
                for user, password in ((USER, PASSWORD), (OTHER, OTHERS_PASSWORD))
            )
            accounts_file = directory / "people.sql"
            accounts_file.write_text(accounts)
            install = ["php", str(FILES / "accounts.php"), str(accounts_file)]
            call(install, directory / "accounts.log", env)
            env |= {"PHP_CLI_SERVER_WORKERS": "2"}
            command = ["php", *SETTINGS, "-S", "%s:%d" % address, "-t", str(root)]
            with running("php -S", command, directory / "php.log", env) as server:
                wait_until(lambda: accepts(address), server)
                yield cls()

    @staticmethod
    def visits(visitor):
        """Sign-ins by the form, at another address, and with a foreign token."""

        def attempt(note, user, password, visitor=visitor, path=FORM, **others):
            page = visitor.get("/index.php?route=/")
            token = visitor.keep(page.find('name="token" value="([^"]+)'))
            session = visitor.keep(visitor.cookies.get("phpMyAdmin", "no session"))
            fields = {"set_session": session, "pma_username": user, "pma_password": password, "server": "1"}
            return visitor.form(path, fields | {"route": "/", "token": token} | others, note=note)

        visitor.get(FORM, note=Note("form", "none", shows="pma_username"))
        door, wrong = "phpmyadmin", "Access denied for user"
        attempt(Note("wrong-password", "failure", USER, door, wrong), USER, "wrong")
        attempt(Note("unknown-account", "failure", "nobody", door, wrong), "nobody", "wrong")
        attempt(Note("wrong-password-elsewhere", "failure", USER, door, wrong), USER, "wrong", path=ELSEWHERE)
        attempt(Note("wrong-token", "failure", USER, door), USER, "wrong", token="x" * 32)
        note = Note("right-password-wrong-token", "failure", USER, door)
        attempt(note, USER, PASSWORD, visitor.another(), token="x" * 32)
        attempt(Note("right-password", "success", USER, door), USER, PASSWORD)
        elsewhere = visitor.another()
        attempt(Note("right-password-elsewhere", "success", USER, door), USER, PASSWORD, elsewhere, ELSEWHERE)
        attacker = visitor.another()
        attempt(None, OTHER, OTHERS_PASSWORD, attacker)
        page = attacker.get("/index.php?route=/")
        token = attacker.keep(page.find('token:"([^"]+)'))
        fields = {"pma_username": USER, "pma_password": "wrong", "server": "1", "route": "/", "token": token}
        attacker.form(FORM, fields, note=Note("wrong-password-while-signed-in", "failure", USER, door))
        attempt(None, OTHER, OTHERS_PASSWORD, attacker := visitor.another())
        token = attacker.keep(attacker.get("/index.php?route=/").find('token:"([^"]+)'))
        fields = {"token": token, "pma_username": USER, "pma_password": "wrong"}
        attacker.form("/index.php?route=/logout", fields, note=Note("sign-out-with-a-name", "failure", USER, door))
        page = visitor.get("/index.php?route=/")
        token = visitor.keep(page.find('token:"([^"]+)'))
        visitor.form("/index.php?route=/logout", {"token": token}, note=Note("sign-out", "none"))
