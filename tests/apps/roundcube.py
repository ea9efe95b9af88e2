"""Roundcube from Debian on PHP's own server, with SQLite and a Dovecot of its own.

It takes a sign-in at every address, and even from cookies what it is asked to do.
"""

import os
import pwd
import re
import shutil
import sqlite3
from contextlib import contextmanager
from pathlib import Path
from string import Template

from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, free_address, running, wait_until
from recording import Note
from wordpress import SETTINGS

FILES = Path(__file__).parent / "roundcube"
FORM = "/?_task=login"
TOKEN = r"_token=([^&\s]+)"


class Roundcube:
    """A running site."""

    title = "Roundcube"
    preset = "roundcube"

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """Mail server, tables and the server, for the length of the block."""
        mail = free_address()
        config = directory / "config"
        config.mkdir()
        (directory / "logs").mkdir()
        shutil.copy(FILES / "config.inc.php", config)
        shutil.copy("/etc/roundcube/defaults.inc.php", config)
        with sqlite3.connect(directory / "roundcube.sqlite") as tables:
            tables.executescript(Path("/usr/share/roundcube/SQL/sqlite.initial.sql").read_text())
        env = {"ROUNDCUBE_CONFIG_DIR": str(config), "APP_IMAP": "%s:%d" % mail, "APP_DIRECTORY": str(directory)}
        env |= {"PHP_CLI_SERVER_WORKERS": "4"}
        command = ["php", *SETTINGS, "-S", "%s:%d" % address, "-t", "/var/lib/roundcube"]
        with dovecot(directory, mail), running("php -S", command, directory / "php.log", env) as server:
            wait_until(lambda: accepts(address), server)
            yield cls()

    @staticmethod
    def visits(visitor):
        """Sign-ins by the form, at other addresses, and in other spellings."""

        def token(visitor):
            return visitor.keep(visitor.get(FORM).find('name="_token" value="([^"]+)'))

        def attempt(note, user, password, visitor=visitor, path=FORM, **others):
            fields = {"_token": token(visitor), "_task": "login", "_action": "login", "_timezone": "UTC", "_url": ""}
            return visitor.form(path, fields | {"_user": user, "_pass": password} | others, note=note)

        visitor.get(FORM, note=Note("form", "none", shows='name="_user"'))
        door, wrong = "roundcube", "Login failed"
        attempt(Note("wrong-password", "failure", USER, door, wrong), USER, "wrong")
        attempt(Note("unknown-account", "failure", "nobody", door, wrong), "nobody", "wrong")
        attempt(Note("empty", "failure", "", door), "", "")
        attempt(Note("wrong-token", "failure", USER, door), USER, PASSWORD, _token="x" * 32)
        attempt(Note("right-password", "success", USER, door, hides=TOKEN), USER, PASSWORD)
        path = "/?_task=mail&_action=upload"
        note = Note("right-password-elsewhere", "success", USER, door, hides=TOKEN)
        attempt(note, USER, PASSWORD, visitor.another(), path)
        by_cookie = visitor.another()
        by_cookie.keep(known := token(by_cookie))
        by_cookie.cookies |= {"_task": "login", "_action": "login"}
        fields = {"_token": known, "_user": USER, "_pass": PASSWORD}
        by_cookie.form("/", fields, note=Note("right-password-task-in-cookie", "success", USER, door, hides=TOKEN))
        for name, spelling in {"tags": f"<b>{USER}", "blanks": f" {USER} ", "capitals": USER.upper()}.items():
            note = Note(f"spelling-{name}", "success", spelling.strip(), door, hides=TOKEN, spelling_of=USER)
            attempt(note, spelling, PASSWORD, visitor.another())
        attacker = visitor.another()
        attempt(None, OTHER, OTHERS_PASSWORD, attacker)
        known = attacker.keep(re.search('"request_token":"([^"]+)', attacker.get("/?_task=mail").body)[1])
        fields = {"_token": known, "_task": "login", "_action": "login", "_user": USER, "_pass": "wrong"}
        attacker.form(FORM, fields, note=Note("wrong-password-while-signed-in", "failure", USER, door))
        known = visitor.keep(re.search('"request_token":"([^"]+)', visitor.get("/?_task=mail").body)[1])
        visitor.get(f"/?_task=logout&_token={known}", note=Note("sign-out", "none"))


@contextmanager
def dovecot(directory, address):
    """An IMAP server with two accounts."""
    me = pwd.getpwuid(os.getuid()).pw_name
    # Root may neither greet nor own mails.
    login, owner, group = ("nobody", "nobody", "nogroup") if os.getuid() == 0 else (me, me, me)
    mails = directory / "mail"
    mails.mkdir()
    for path, mode in ((directory, 0o711), (mails, 0o777)):
        path.chmod(mode)
    people = ((USER, PASSWORD), (OTHER, OTHERS_PASSWORD))
    (directory / "people").write_text("".join(f"{user}:{{PLAIN}}{password}::::::\n" for user, password in people))
    host, port = address
    places = {"directory": directory, "host": host, "port": port, "me": me, "login": login, "owner": owner, "group": group}
    conf = directory / "dovecot.conf"
    conf.write_text(Template((FILES / "dovecot.conf").read_text()).substitute(places))
    with running("dovecot", ["dovecot", "-F", "-c", str(conf)], directory / "dovecot.log") as server:
        wait_until(lambda: accepts(address), server)
        yield
