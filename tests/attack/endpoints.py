"""The examples of examples/endpoints: a real proxy that asks a gate, before an application that reads every body.

The proxies' files are those that people copy; only addresses are others. A password that the application compares and
that the gate was not asked about, or was told that it is a page, is a hole.
"""

import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from draft import Door
from gates import SIZE, Front
from own_sites import Flask, doors_of
from processes import accepts, free_address, running, url, wait_until
from target import ROOT, Target
from wire import Connection, Message

EXAMPLES = ROOT / "examples" / "endpoints"
WAYS = ("plain", "plain", "h2c", "h2c")
SHIPPED = '[route.login]\nmatch = "POST /login"\n\n[limit.address]\nrate = "5 per 1h"\n'
FILE = """
listen = "{listen}"
upstream = "{upstream}"
{shipped}
[route.login]
match = "ANY /login"
when = "form:pw"

[route.any]
match = "ANY /any"
when = "form:pw"

[route.api]
match = "ANY /api/session"
when = "json:/pw"

[route.basic]
match = "ANY /basic"
when = "basic"

[limit.tried]
rate = "{size} per 3650d"

[store]
capacity = 4_000_000

[log]
access = ""
level = "warn"

[admin]
listen = ["{admin}", "unix:{socket}"]
"""


@dataclass
class AskedFront(Front):
    """A proxy that asks a gate; of outcomes neither knows."""

    def taken(self, client):
        """What is missing in the client's bucket, which is all that there is; nothing is known of failures."""
        return SIZE - self.ask(f"ip:{client}")["buckets"][0]["tokens"], 0


@dataclass
class Asked(Target):
    """The application behind one proxy."""

    proxy: type = None

    def gates(self, binary, directory, inside):
        """The proxy, and the gate that it asks."""
        yield "plain", self.proxy.front(binary, directory / "plain", inside)


class Proxy(Flask):
    """A proxy with one of the files, which speaks HTTP/2 in clear text at the same address."""

    proxy = []
    doors = ("login", "any", "api", "basic")

    @classmethod
    @contextmanager
    def start(cls, directory, address, site):
        """The application, for the length of the block."""
        with super().start(directory, address, site) as flask:
            doors = [Door(**vars(door) | {"neutral": True}) for door in doors_of("", "/api/session")]
            doors = [door for door in doors if door.name in cls.doors]
            yield Asked(cls.name, flask.log, "", doors, ways=WAYS, proxy=cls)

    @classmethod
    @contextmanager
    def front(cls, binary, directory, inside):
        """The gate and the proxy, for the length of the block."""
        directory.mkdir()
        clear, admin, listen, *places = (free_address() for _ in range(9))
        for file in filter(Path.is_file, EXAMPLES.iterdir()):
            (directory / file.name).write_text(here(file.read_text(), [*places, inside]))
        gate, socket = (directory / "gate.toml").read_text(), str(directory / "admin.sock")
        assert SHIPPED in gate, gate
        words = {"upstream": url(inside), "shipped": gate.replace(SHIPPED, ""), "size": SIZE}
        words |= {"listen": url(listen), "admin": url(admin), "socket": socket}
        (directory / "gate.toml").write_text(FILE.format(**words))
        cls.prepare(directory, "%s:%d" % places[0], "%s:%d" % clear)
        with running("tollgate", [binary, "run", "-c", str(directory / "gate.toml")], directory / "gate.log") as gate:
            wait_until(lambda: accepts(admin), gate)
            command = [part.format(listen="%s:%d" % places[0], at=directory) for part in cls.proxy]
            with running(cls.name, command, directory / "front.log", {"HOME": str(directory)}, directory) as proxy:
                wait_until(lambda: forwards(places[0]), proxy)
                yield AskedFront(places[0], clear if cls is Nginx else places[0], socket, None)

    @classmethod
    def prepare(cls, directory, listen, clear):
        """What the file lacks."""


def here(text, places):
    """An example with other addresses."""
    for known, (host, port) in zip((8080, 9181, 9182, 9183, 9184, 9185, 8081), places):
        text = text.replace(f"127.0.0.1:{known}", f"{host}:{port}").replace(f"http://:{known}", f"http://:{port}")
        text = text.replace(f"127.0.0.1, port_value: {known}", f"{host}, port_value: {port}")
    return text.replace("bind 127.0.0.1\n", f"bind {places[0][0]}\n")


def forwards(address):
    """Whether a page comes through."""
    head = b"GET /home HTTP/1.1\r\nHost: app.example\r\n\r\n"
    return accepts(address) and Connection(address, "127.1.0.1").send(Message(head, b"")).status == 200


class Nginx(Proxy):
    """nginx, which has another port for HTTP/2 in clear text."""

    name = "endpoint-nginx"
    proxy = ["/usr/sbin/nginx", "-p", "{at}", "-e", "stderr", "-c", "{at}/main.conf"]

    @classmethod
    def prepare(cls, directory, listen, clear):
        """The file is for `include`."""
        file, line = directory / "nginx.conf", f"listen {listen};"
        file.write_text(file.read_text().replace(line, f"{line} listen {clear} http2;"))
        paths = " ".join(f"{kind}_temp_path {kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        main = "daemon off; master_process off; pid nginx.pid; error_log stderr;\nevents { worker_connections 1000; }\n"
        (directory / "main.conf").write_text(main + f"http {{ access_log off; {paths} include nginx.conf; }}\n")


class Haproxy(Proxy):
    """HAProxy with the script that asks."""

    name = "endpoint-haproxy"
    proxy = ["haproxy", "-db", "-f", "haproxy.cfg"]


class Caddy(Proxy):
    """Caddy with forward_auth."""

    name = "endpoint-caddy"
    proxy = ["caddy", "run", "--config", "Caddyfile", "--adapter", "caddyfile"]

    @classmethod
    def prepare(cls, directory, listen, clear):
        """HTTP/2 in clear text, and no listener of its own."""
        file = directory / "Caddyfile"
        file.write_text("{\n\tadmin off\n\tservers {\n\t\tprotocols h1 h2c\n\t}\n}\n" + file.read_text())


class Traefik(Proxy):
    """Traefik with forwardAuth."""

    name = "endpoint-traefik"
    proxy = [str(ROOT / "target/tools/traefik/bin/traefik"), "--entryPoints.edge.address={listen}"]
    proxy += ["--entryPoints.edge.http.aliasHeadersStrategy=delete", "--providers.file.filename=traefik-dynamic.yaml"]
    proxy += ["--providers.file.watch=false", "--global.checkNewVersion=false", "--global.sendAnonymousUsage=false"]


class Envoy(Proxy):
    """Envoy with ext_authz."""

    name = "endpoint-envoy"
    proxy = [str(ROOT / "target/tools/envoy/bin/envoy"), "--concurrency", "2", "--use-dynamic-base-id"]
    proxy += ["--log-level", "error", "--config-path", "envoy.yaml"]


class EnvoyRls(Envoy):
    """Envoy with its rate limit service, which is told of no credentials in a header."""

    name = "endpoint-envoy-rls"
    doors = ("login", "any", "api")
    proxy = [*Envoy.proxy[:-1], "envoy-rls.yaml"]


class EnvoyAuthz(Envoy):
    """Envoy with ext_authz over gRPC."""

    name = "endpoint-envoy-authz"
    proxy = [*Envoy.proxy[:-1], "envoy-ext-authz.yaml"]


class EnvoyProc(Envoy):
    """Envoy with ext_proc."""

    name = "endpoint-envoy-proc"
    proxy = [*Envoy.proxy[:-1], "envoy-ext-proc.yaml"]


ENDPOINTS = (Nginx, Haproxy, Caddy, Traefik, Envoy, EnvoyRls, EnvoyAuthz, EnvoyProc)
