"""Tomcat's FORM login: the examples from Debian, with a CATALINA_BASE of their own.

The container answers every `.../j_security_check`, whatever stands before it, with 200 and an error page to a wrong
password and with a redirect to a right one. Its form carries the session in the path until a cookie has come back.
"""

import re
from contextlib import contextmanager
from pathlib import Path
from shutil import copy
from urllib.parse import urljoin

from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, running, wait_until
from recording import Note

FILES = Path(__file__).parent / "tomcat"
PAGE = "/examples/jsp/security/protected/index.jsp"
FORM = "/examples/jsp/security/protected/j_security_check"
SMALL = "-Xmx192m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"


class Tomcat:
    """A running container."""

    title = "Tomcat"
    preset = "tomcat"
    gate = FILES / "gate.toml"
    page = PAGE
    file = "/examples/jsp/images/code.gif"
    # A sign-in needs the session that the protected page opens, so hydra asks for that page before each attempt (C=).
    # Since 9.4 hydra wants the condition last, whatever its help says.
    hydra = f"{FORM}:j_username=^USER^&j_password=^PASS^:C={PAGE}:S=You are logged in"
    welcome = "You are logged in"
    failure = "Invalid user name and/or password"

    def __init__(self, address, log):
        self.address, self.log = address, log

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site, more=()):
        """The container with the examples, for the length of the block; `more` are files for its configuration."""
        conf = directory / "conf"
        for part in (conf, directory / "logs", directory / "temp", directory / "webapps"):
            part.mkdir()
        for file in (FILES / "server.xml", FILES / "users.xml", "/usr/share/tomcat10/etc/web.xml", *more):
            copy(file, conf)
        host, port = address
        env = {
            "CATALINA_HOME": "/usr/share/tomcat10",
            "CATALINA_BASE": str(directory),
            "CATALINA_OPTS": f"-Dapp.host={host} -Dapp.port={port} -Dapp.basic={FILES / 'basic'} {SMALL}",
        }
        command = ["sh", "/usr/share/tomcat10/bin/catalina.sh", "run"]
        with running("tomcat", command, directory / "tomcat.log", env) as server:
            wait_until(lambda: accepts(address), server)
            yield cls(address, directory / "logs" / "access.log")

    def posts(self):
        """Sign-in attempts that the application's own log counts."""
        return len(re.findall(r"^\d+ POST \S*/j_security_check", self.log.read_text(), re.M))

    @staticmethod
    def sign_in(browser, page, password):
        """Sends the form to the address that it names itself, which holds `;jsessionid=` on the first visit."""
        action = urljoin(page.url, re.search(r"action='([^']+)'", page.text)[1])
        return browser.post(action, {"j_username": USER, "j_password": password})

    @staticmethod
    def visits(visitor):
        """Form sign-ins with and without a session, and Basic at a page that needs it and one that does not."""
        visitor.get(PAGE, note=Note("form", "none", shows="j_security_check"))

        def attempt(note, user, password, visitor=visitor, session=True):
            if session:
                visitor.get(PAGE)
            return visitor.form(FORM, {"j_username": user, "j_password": password}, note=note)

        door = "tomcat"
        attempt(Note("wrong-password", "failure", USER, door, "Invalid user name"), USER, "wrong")
        attempt(Note("unknown-account", "failure", "nobody", door, "Invalid user name"), "nobody", "wrong")
        attempt(Note("empty", "failure", "", door), "", "")
        stranger = visitor.another()
        attempt(Note("right-password-without-session", "failure", USER, door), USER, PASSWORD, stranger, False)
        note = Note("wrong-password-without-session", "failure", USER, door)
        attempt(note, USER, "wrong", visitor.another(), False)
        attempt(Note("right-password", "success", USER, door), USER, PASSWORD)
        attacker = visitor.another()
        attempt(None, OTHER, OTHERS_PASSWORD, attacker)
        attempt(Note("wrong-password-while-signed-in", "failure", USER, door), USER, "wrong", attacker)
        door = "tomcat-basic"
        visitor = visitor.another()
        visitor.basic("/basic/inside.txt", USER, PASSWORD, note=Note("basic-right", "neutral", USER, door))
        visitor.basic("/basic/inside.txt", USER, "wrong", note=Note("basic-wrong", "failure", USER, door))
        visitor.basic("/basic/outside.txt", USER, "wrong", note=Note("basic-wrong-outside", "neutral", USER, door))
        visitor.get("/basic/inside.txt", note=Note("basic-none", "none"))
