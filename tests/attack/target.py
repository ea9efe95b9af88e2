"""An application that runs: what a user writes for it, its doors, and how its log shows the passwords it compares."""

import json
from dataclasses import dataclass
from pathlib import Path

from draft import Guess

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
TOOLS = ROOT / "target" / "attack"
PYTHON = TOOLS / "python" / "bin" / "python"


@dataclass
class Target:
    """A running application; `upstream` is where the gate finds it."""

    name: str
    log: Path
    routes: str
    doors: list
    session: object = lambda: ((), ())  # makes the cookies and fields of a visitor who has seen the form

    def door(self, name):
        """The door of that name."""
        return next(door for door in self.doors if door.name == name)

    @staticmethod
    def compares(line):
        """Whether a line of the log says that a password was compared."""
        return line.startswith("{")

    @staticmethod
    def password(line):
        """The password of such a line."""
        try:
            return str(json.loads(line)["password"])
        except (ValueError, KeyError):
            return line

    @staticmethod
    def user(line):
        """The name of such a line."""
        try:
            return str(json.loads(line)["user"])
        except (ValueError, KeyError):
            return ""

    @staticmethod
    def right(token):
        """A right name and password that no other request has."""
        return Guess("margaret", f"right-{token}", token, True)


def attempts_log(directory):
    """An empty log of attempts."""
    log = directory / "attempts.log"
    log.touch()
    log.chmod(0o666)
    return log
