"""The servers that are compared: how each is configured for the same job and started.

A new one is a class with `config`, `version` and `command`, and a template beside this file.
"""

import http.client
import os
import re
import signal
from pathlib import Path

from jobs import LARGE
from log_sink import LogSink
from process import Process, free_address

HERE = Path(__file__).parent
BODY = "x" * 200
CERTIFICATE = "server.pem"   # in the directory above the server's


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
    """One of the servers, running in front of the upstream with one job; a context manager."""

    def __init__(self, directory, cores, upstream, job, workers=1):
        directory.mkdir()
        self.job, self.address = job, free_address()
        self.log, self.certificate = directory / "access.log", directory.parent / CERTIFICATE
        limit = job.limit
        values = {"DIR": directory, "LOG": self.log, "LISTEN": spell(self.address), "UPSTREAM": spell(upstream.address),
                  "COUNT": limit.count, "PERIOD": f"{limit.seconds}s", "SCHEME": self.scheme, "WORKERS": workers,
                  **self.values(job, workers)}
        config = fill(self.config, values, directory / self.config)
        self.process = Process(self.command(config), cores, self.address, directory / "output")

    @property
    def scheme(self):
        """Of its URL."""
        return "https" if self.job.tls else "http"

    def url(self, path=""):
        """Where it listens."""
        return f"{self.scheme}://{spell(self.address)}{path}"

    def __enter__(self):
        self.process.__enter__()
        return self

    def __exit__(self, *exception):
        self.process.__exit__(*exception)

    def values(self, job, workers):
        """What else the template wants."""
        return {}

    def flush_log(self):
        """Asks for the lines that it still holds back."""

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

    def values(self, job, workers):
        tls = f'[tls]\ncertificates = [{{ cert = "{self.certificate}", key = "{self.certificate}" }}]'
        values = {"TLS": tls if job.tls else "", "ROUTE": 'match = "POST /login"', "LIMITS": "", "ENDPOINT": ""}
        if job.endpoint:
            endpoint = f'[endpoint.proxy]\nkind = "{job.endpoint}"\nlisten = "http://{spell(self.address)}"'
            values |= {"LISTEN": spell(free_address()), "ENDPOINT": endpoint}
        if job.large:
            values["ROUTE"] = 'match = "GET /large"'
        if job.wordpress:
            account = f'[limit.account]\nkey = "user"\nrate = "{job.limit.count} per {job.limit.seconds}s"\ncount = "failures"\n'
            values |= {"ROUTE": 'preset = "wordpress"', "LIMITS": f'count = "failures"\n\n{account}'}
        return values


class AlsoTollgate(Tollgate):
    """Another build of ours."""


class Nginx(Server):
    """nginx with limit_req."""

    config, version, program = "nginx.conf", "-v", "nginx"

    def command(self, config):
        return [self.program, "-e", "stderr", "-p", config.parent, "-c", config]

    def values(self, job, workers):
        limit = job.limit
        minutes = limit.count * 60 // limit.seconds
        assert minutes * limit.seconds == limit.count * 60, "nginx cannot say this rate"
        # As Debian's nginx.conf: 1.22 does not offer TLS 1.3 by itself.
        tls = f"ssl_certificate {self.certificate}; ssl_certificate_key {self.certificate}; ssl_protocols TLSv1.2 TLSv1.3;"
        wide = "proxy_buffer_size 64k; proxy_buffers 8 64k;"
        # Without reuseport, one of two workers takes most connections of a burst.
        options = ["ssl http2"] * job.tls + ["reuseport"] * (workers > 1)
        return {"RATE": f"{minutes}r/m", "BURST": limit.count - 1, "LISTEN_OPTIONS": " ".join(options),
                "TLS": tls if job.tls else "", "BUFFERS": wide if job.large else ""}

    def flush_log(self):
        os.kill(self.process.child.pid, signal.SIGUSR1)


class Haproxy(Server):
    """HAProxy with a stick table."""

    config, version, program = "haproxy.cfg", "-v", "haproxy"

    def command(self, config):
        return [self.program, "-db", "-f", config]

    def values(self, job, workers):
        self.sink = LogSink(self.log)
        tls = f"ssl crt {self.certificate} alpn h2,http/1.1"
        return {"EXPIRE": f"{2 * job.limit.seconds}s", "SINK": spell(self.sink.address), "BIND_OPTIONS": tls if job.tls else ""}

    def __exit__(self, *exception):
        super().__exit__(*exception)
        self.sink.close()


ALSO = "second-build"
SERVERS = {"tollgate": Tollgate, ALSO: AlsoTollgate, "nginx": Nginx, "haproxy": Haproxy}


class Upstream(Process):
    """The application behind them, which counts what reaches it."""

    def __init__(self, directory, core):
        address = free_address()
        values = {"DIR": directory, "UPSTREAM": spell(address), "BODY": BODY}
        config = fill("upstream.conf", values, directory / "upstream.conf")
        (directory / "large").write_bytes(b"x" * LARGE)
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
