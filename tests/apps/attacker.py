"""hydra, the brute-force tool: wrong passwords, in parallel and without regard for refusals.

It is told what a success looks like, never what a failure looks like: a refusal is neither.
"""

import re

from person import USER
from processes import call
from report import Wrong

ADDRESS = "127.0.0.1"  # where loopback connections start unless they say otherwise; hydra cannot
ATTEMPTS = 60
TASKS = 4
PAUSE = 1  # seconds that a task rests before each connection; an attempt takes two of them, the attack some 30 s


def attack(app, target, directory):
    """Tries wrong passwords only; returns how many hydra took for right."""
    return hydra(app, target, directory / "attack", [f"wrong-{n:03}" for n in range(ATTEMPTS)], "-W", str(PAUSE))


def attack_with(password, app, target, directory):
    """The same with the right password in the list, which shows that hydra knows a success when it sees one."""
    return hydra(app, target, directory / "control", ["wrong-a", password, "wrong-b"])


def hydra(app, target, directory, passwords, *options):
    """One run of hydra in a directory of its own, where it may leave its restore file."""
    directory.mkdir()
    words = directory / "passwords"
    words.write_text("\n".join(passwords) + "\n")
    host, port = target
    command = ["hydra", "-I", "-l", USER, "-P", str(words), "-t", str(TASKS), *options]
    command += ["-s", str(port), host, "http-post-form", app.hydra]
    said = call(command, directory / "hydra.log", cwd=directory)
    summary = re.search(r"(\d+) valid passwords? found", said)
    if not summary:
        raise Wrong(f"hydra came to no result:\n{said}")
    return int(summary[1])
