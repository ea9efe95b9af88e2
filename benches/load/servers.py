"""The servers that are compared: how each is configured for the same job and started.

A new one is a class with `config`, `version` and `command`, and a template beside this file.
"""

import http.client
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from process import Process, free_address

HERE = Path(__file__).parent
BODY = "x" * 200


@dataclass(frozen=True)
class Limit:
    """A bucket of `count` tokens that fills in `seconds`."""

    count: int
    seconds: int

    def promise(self, elapsed):
        """The most that may be admitted within `elapsed` seconds of a full bucket."""
        return int(self.count + self.count * elapsed / self.seconds)


def fill(name, values, target):
    """Writes a template with its @NAMES@ replaced."""
    text = (HERE / name).read_text()
    for key, value in values.items():
        text = text.replace(f"@{key}@", str(value))
    target.write_text(text)
    return target


def spell(address):
    """HOST:PORT."""
    return "%s:%d" % address


class Server:
    """One of the servers, running in front of the upstream with one limit; a context manager."""

    def __init__(self, directory, core, upstream, limit):
        directory.mkdir()
        self.limit, self.address = limit, free_address()
        self.log = directory / "access.log"
        values = {"DIR": directory, "LOG": self.log, "LISTEN": spell(self.address), "UPSTREAM": spell(upstream.address),
                  "COUNT": limit.count, "PERIOD": f"{limit.seconds}s", **self.values(limit)}
        config = fill(self.config, values, directory / self.config)
        self.process = Process(self.command(config), core, self.address, self.output(directory))

    def __enter__(self):
        self.process.__enter__()
        return self

    def __exit__(self, *exception):
        self.process.__exit__(*exception)

    def values(self, limit):
        """What else the template wants."""
        return {}

    def output(self, directory):
        """Where standard output goes."""
        return directory / "output"

    def logged(self):
        """Lines in the access log."""
        with open(self.log, "rb") as file:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))

    def forget_log(self):
        """Empties the access log, so that long measurements do not fill the disk."""
        if self.log.exists():
            self.log.open("r+b").truncate(0)


class Tollgate(Server):
    """Ours."""

    config, version = "tollgate.toml", "--version"
    program = "tollgate"

    def command(self, config):
        return [self.program, "run", "--config", config]


class Nginx(Server):
    """nginx with limit_req."""

    config, version, program = "nginx.conf", "-v", "nginx"

    def command(self, config):
        return [self.program, "-e", "stderr", "-p", config.parent, "-c", config]

    def values(self, limit):
        minutes = limit.count * 60 // limit.seconds
        assert minutes * limit.seconds == limit.count * 60, "nginx cannot say this rate"
        return {"RATE": f"{minutes}r/m", "BURST": limit.count - 1}


class Haproxy(Server):
    """HAProxy with a stick table."""

    config, version, program = "haproxy.cfg", "-v", "haproxy"

    def command(self, config):
        return [self.program, "-db", "-f", config]

    def values(self, limit):
        return {"EXPIRE": f"{2 * limit.seconds}s"}

    def output(self, directory):
        return self.log


SERVERS = {"tollgate": Tollgate, "nginx": Nginx, "haproxy": Haproxy}


class Upstream(Process):
    """The application behind them, which counts what reaches it."""

    def __init__(self, directory, core):
        address = free_address()
        values = {"DIR": directory, "UPSTREAM": spell(address), "BODY": BODY}
        config = fill("upstream.conf", values, directory / "upstream.conf")
        command = ["nginx", "-e", "stderr", "-p", directory, "-c", config]
        super().__init__(command, core, address, directory / "upstream.out")
        self.asked = 0

    def count(self):
        """Requests so far, without those that asked for this number."""
        connection = http.client.HTTPConnection(*self.address, timeout=5)
        connection.request("GET", "/count")
        text = connection.getresponse().read().decode()
        connection.close()
        self.asked += 1
        return int(re.search(r"\n \d+ \d+ (\d+)", text)[1]) - self.asked


def version(program, option):
    """The line in which a program names its version."""
    done = subprocess.run([program, option], capture_output=True, text=True, timeout=10)
    text = done.stdout + done.stderr
    return next((line for line in text.splitlines() if re.search(r"\d\.\d", line)), "unknown version").strip()
