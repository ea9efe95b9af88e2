"""Gates whose buckets say of every client what was taken and what was given back.

Each client has an address of its own, and a bucket of `tried` that counts attempts and one of `failed` that counts
failures. They are so large and so slow that nothing is ever refused and nothing comes back by time.
"""

import http.client
import json
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import quote

from gate import Gate
from processes import call, free_address

SIZE = 100_000
PROXY = "127.1.0.1"  # is believed about its clients
FILE = """
listen = ["$listen", "https://{secure}"]
upstream = "$upstream"

[client]
trust = ["127.1.0.0/16"]
header = "{header}"
{routes}
[limit.tried]
rate = "{size} per 3650d"

[limit.failed]
rate = "{size} per 3650d"
count = "failures"
{account}
[tls]
certificates = [{{ cert = "{directory}/cert.pem", key = "{directory}/key.pem" }}]

[store]
capacity = 4_000_000

[proxy]
connections = 2_000
drain = "2s"

[log]
access = ""
level = "warn"

[admin]
listen = ["$admin", "unix:{socket}"]
"""
ACCOUNT = f"""
[limit.account]
key = "user"
rate = "{SIZE} per 3650d"
"""


@dataclass
class Front:
    """One running gate."""

    plain: tuple
    secure: tuple
    socket: str
    gate: Gate
    by_account: bool = False
    kept: threading.local = field(default_factory=threading.local)

    def taken(self, client):
        """What is missing in the client's buckets: of `tried`, and of `failed`."""
        buckets = {one["limit"]: SIZE - one["tokens"] for one in self.ask(f"ip:{client}")["buckets"]}
        return buckets["tried"], buckets["failed"]

    def spent(self, account):
        """What is missing in the bucket of an account."""
        return max((SIZE - one["tokens"] for one in self.ask(f"user:{account}").get("buckets", ())), default=0)

    def ask(self, key):
        """What the gate says of one key; a machine that is too busy to ask in time asks again."""
        for tries in range(5):
            try:
                connection = getattr(self.kept, "connection", None) or Local(self.socket)
                self.kept.connection = connection
                connection.request("GET", "/api/v1/buckets/" + quote(key, safe=":."))
                return json.loads(connection.getresponse().read())
            except (OSError, http.client.HTTPException):
                self.kept.connection = None
                if tries == 4:
                    raise
                time.sleep(tries)


class Local(http.client.HTTPConnection):
    """Over a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=20)
        self.path = path

    def connect(self):
        """As the base class does it, elsewhere."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def files(routes):
    """The same routes as people write them, in the opposite order, and for one host and all that no route names."""
    each = ["\n[route." + one for one in routes.split("\n[route.")[1:]]
    hosted = "".join(one.rstrip() + '\nhost = "app.example"\nhost_default = true\n' for one in each)
    return {"plain": routes, "account": "".join(reversed(each)), "hosts": hosted}


@contextmanager
def front(binary, directory, upstream, routes, account=""):
    """A gate for the length of the block, with a limit by account or without; one of both believes another header."""
    directory.mkdir()
    listen, secure, path = free_address(), free_address(), str(directory / "admin.sock")
    certify(directory)
    words = {"routes": routes, "size": SIZE, "account": account, "directory": directory, "socket": path}
    words |= {"secure": "%s:%d" % secure, "header": "Forwarded" if account else "X-Forwarded-For"}
    template = directory / "template.toml"
    template.write_text(FILE.format(**words))
    with Gate.start(binary, template, directory, listen, upstream, "") as gate:
        yield Front(listen, secure, path, gate, bool(account))


def certify(directory):
    """A certificate for an unused name."""
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 9 -subj /CN=app.example".split()
    )
    command += ["-keyout", str(directory / "key.pem"), "-out", str(directory / "cert.pem")]
    call(command, directory / "openssl.log")


def address(number):
    """The loopback address of a case's client."""
    return f"127.{32 + (number >> 16) % 128}.{number >> 8 & 255}.{number & 255}"


def distant_address(number):
    """The same for one behind a proxy."""
    return f"11.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
