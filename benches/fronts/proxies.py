"""The proxies that ask a gate, with their files of examples/endpoints: how each is started alone, asking, and reporting answers.

A new one is a line in PROXIES and a class with `command`.
"""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "examples/endpoints"
MODULES = "/usr/lib/nginx/modules"
ALONE, ASKING, REPORTING = "alone", "asking", "reporting"
# The ports of the examples: of the proxy, of the application, of the gate's endpoints.
PORTS = re.compile(r'(127\.0\.0\.1:|http://:|"127\.0\.0\.1", |port_value: )(8080|8081|918[1-5])\b')


@dataclass(frozen=True)
class Place:
    """Where a proxy has its files, and who listens where: (host, port) each."""

    directory: Path
    http1: tuple
    http2: tuple
    gate: tuple
    application: tuple

    def copy(self, name, change=lambda text: text):
        """Copies a file of the examples, or a folder, with the ports of this place."""
        source, target = EXAMPLES / name, self.directory / name
        for file in [source] if source.is_file() else [file for file in source.rglob("*") if file.is_file()]:
            copy = target / file.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(change(PORTS.sub(self._port, file.read_text())))

    def _port(self, found):
        address = {"8080": self.http1, "8081": self.application}.get(found[2], self.gate)
        return f"{found[1]}{address[1]}"


class Proxy:
    """One of the proxies."""

    # Of its endpoint at the gate.
    kind, lines = "forward-auth", ""
    shows_bodies, reports, has_http2_port = False, True, False
    # What the lines of its files begin with that report answers.
    mark = "#outcome# "

    def modes(self):
        """What it is measured in."""
        return [ALONE, ASKING, *[REPORTING] * self.reports]

    def switched(self, mode):
        """What makes its files report answers, as docs/endpoints.md has it; other modes need nothing."""
        is_on = mode == REPORTING and self.mark
        return lambda text: text.replace(self.mark, "").replace("Receipt $tollgate_receipt;", 'Receipt "";') if is_on else text


class Nginx(Proxy):
    """nginx with auth_request."""

    lines, has_http2_port = "refused_status = 403\n", True
    program, version = "nginx", ["-v"]

    def __init__(self, mark, modules):
        self.mark, self.modules = mark, modules

    def command(self, place, mode):
        listen = "listen 127.0.0.1:%d;" % place.http1[1]
        both = listen + " listen 127.0.0.1:%d http2;" % place.http2[1]
        switch = self.switched(mode)
        for name in ["nginx.conf", "nginx-njs.conf", "nginx-lua.conf", "tollgate.js"]:
            place.copy(name, lambda text: switch(text).replace(listen, both))
        at = place.directory
        server = f"include {at}/nginx.conf;" if mode != ALONE else f"""server {{
            {both}
            location / {{
                proxy_http_version 1.1;
                proxy_set_header Connection "";
                proxy_set_header Host $host;
                proxy_set_header X-Forwarded-For $remote_addr;
                proxy_pass http://127.0.0.1:{place.application[1]};
            }}
        }}"""
        modules = self.modules if mode == REPORTING else []
        (at / "main.conf").write_text(nginx_file(at, modules, server))
        return ["nginx", "-e", "stderr", "-p", at, "-c", at / "main.conf"]


def nginx_file(at, modules, server):
    """A whole file of nginx with one worker and no access log."""
    loads = "".join(f"load_module {MODULES}/{name}.so;\n" for name in modules)
    temporary = " ".join(f"{kind}_temp_path {at}/{kind};" for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"])
    return (f"{loads}daemon off; worker_processes 1; pid {at}/nginx.pid; error_log stderr;\n"
            f"events {{ worker_connections 4096; }}\nhttp {{ access_log off; {temporary}\n{server}\n}}\n")


LUA = ["ndk_http_module", "ngx_http_lua_module"]


class Caddy(Proxy):
    """Caddy with forward_auth, which cannot report answers."""

    reports, program, version = False, "caddy", ["version"]

    def command(self, place, mode):
        options = "{\n\tadmin off\n\tservers {\n\t\tprotocols h1 h2c\n\t}\n}\n"
        if mode == ALONE:
            proxy = "http://:%d {\n\tbind 127.0.0.1\n\treverse_proxy 127.0.0.1:%d\n}\n" % (place.http1[1], place.application[1])
            (place.directory / "Caddyfile").write_text(options + proxy)
        else:
            place.copy("Caddyfile", lambda text: options + text)
        return ["caddy", "run", "--config", "Caddyfile", "--adapter", "caddyfile"]


class Haproxy(Proxy):
    """HAProxy with Lua."""

    program, version = "haproxy", ["-v"]

    def command(self, place, mode):
        place.copy("tollgate.lua")
        place.copy("haproxy.cfg", without_lua if mode == ALONE else self.switched(mode))
        return ["haproxy", "-db", "-f", "haproxy.cfg"]


def without_lua(text):
    """What is left of the file when nobody is asked."""
    lines = [line for line in text.splitlines() if not re.search(r"\blua\b|lua-load|wait-for-body", line)]
    return "\n".join(lines) + "\n"


class Traefik(Proxy):
    """Traefik with forwardAuth, and its plugin."""

    lines, shows_bodies = "bodies = true\n", True
    program, version = str(ROOT / "target/tools/traefik/bin/traefik"), ["version"]

    def command(self, place, mode):
        used = "      middlewares:\n      - own-words\n      - tollgate\n"
        place.copy("traefik-dynamic.yaml", (lambda text: cut(text, used)) if mode == ALONE else self.switched(mode))
        place.copy("plugins-local")
        plugin = ["--experimental.localPlugins.tollgate.moduleName=tollgate"] * (mode == REPORTING)
        return [self.program, "--entryPoints.edge.address=127.0.0.1:%d" % place.http1[1],
                "--entryPoints.edge.http.aliasHeadersStrategy=delete", "--providers.file.filename=traefik-dynamic.yaml",
                "--providers.file.watch=false", *plugin, "--global.checkNewVersion=false", "--global.sendAnonymousUsage=false",
                "--log.level=WARN"]


class Envoy(Proxy):
    """Envoy with one of its filters."""

    shows_bodies, lines = True, "bodies = true\n"
    program, version = str(ROOT / "target/tools/envoy/bin/envoy"), ["--version"]

    def __init__(self, file, kind="forward-auth", mark=Proxy.mark):
        self.file, self.kind, self.mark = file, kind, mark

    def command(self, place, mode):
        place.copy("tollgate-envoy.lua")
        place.copy(self.file, without_filters if mode == ALONE else self.switched(mode))
        return [self.program, "--config-path", self.file, "--concurrency", "1", "--use-dynamic-base-id", "--log-level", "error"]


def without_filters(text):
    """With the router alone."""
    before, rest = text.split("          http_filters:\n")
    router = "          - name: envoy.filters.http.router\n"
    return f"{before}          http_filters:\n{router}{rest.split(router)[1]}"


def cut(text, piece):
    """Without a piece that has to be there."""
    assert piece in text, piece
    return text.replace(piece, "")


PROXIES = {
    "nginx, njs": Nginx("#njs# ", ["ngx_http_js_module"]),
    "nginx, Lua": Nginx("#lua# ", LUA),
    "Caddy": Caddy(),
    "HAProxy, Lua": Haproxy(),
    "Traefik, plugin": Traefik(),
    "Envoy, ext_authz": Envoy("envoy.yaml"),
    # Its streams show answers always.
    "Envoy, ext_proc": Envoy("envoy-ext-proc.yaml", "ext-proc", ""),
}


def missing(names):
    """Programs and modules that are not installed."""
    programs = {"nginx", "h2load", "taskset", *(PROXIES[name].program for name in names)}
    modules = {f"{MODULES}/{name}.so" for name in [*LUA, "ngx_http_js_module"]}
    return sorted({name for name in programs if not shutil.which(name)} | {name for name in modules if not Path(name).exists()})
