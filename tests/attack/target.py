"""An application that runs: what a user writes for it, its doors, and how its log shows the passwords it compares."""

import json
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from draft import Guess
from gates import ACCOUNT, files, front

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
    ways: tuple = ()  # by which requests come; all of `search.py` if it is empty
    others: tuple = ()  # cookies of others who have signed in
    figures: tuple = ()  # what else is counted, and said in the end

    def gates(self, binary, directory, inside):
        """The gates before it, by name, none of them started yet."""
        for name, routes in files(self.routes).items():
            yield name, front(binary, directory / name, inside, routes, ACCOUNT if name == "account" else "")

    def beside(self, _search):
        """What else goes on while it is searched."""
        return nullcontext()

    def session_for(self, _trial):
        """The cookies and fields of the visitor who sends a case."""
        return self.session()

    @staticmethod
    def owed(trial):
        """What the bucket of each account has to have paid for a case."""
        return {user: 1 for user in trial.users.values()}

    @staticmethod
    def is_neutral(_trial, touched):
        """Whether the route of a case gives back what is not refused."""
        return any(door.neutral for door in touched)

    @staticmethod
    def beyond(_trial):
        """How many attempts of a case were more than an account has."""
        return 0

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
