"""The sites of sites/: the same four doors in PHP, on Flask, Express and Rails, on servers that people put them on."""

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path

from draft import Door
from processes import accepts, running, wait_until
from target import HERE, PYTHON, TOOLS, Target, attempts_log
from wordpress import SETTINGS


def form_route(name, path, rest):
    """A route as a user writes it."""
    return f'\n[route.{name}]\nmatch = "POST {path}"\nuser = "form:login"\npassword = "form:pw"\n{rest}\n'


BASIC_ROUTE = """
[route.basic]
match = "ANY {}"
when = "basic"
user = "basic"
password = "basic"
success = {{ status = 200 }}
"""
JSON_ROUTE = """
[route.api]
match = "POST {}"
user = "json:/login"
password = "json:/pw"
failure = {{ status = 401 }}
success = {{ status = 200 }}
"""
PAGE_RULES = 'failure = { body = "Login failed" }\notherwise = "success"'
REDIRECT_RULES = 'success = { status = 302, location = "/home*" }'


def doors_of(suffix, api):
    """Four ways in, as the sites of this directory have them."""
    echoes = {
        "echoes": ("note", "next"),
        "extras": (("next", "/home"), ("note", "Welcome"), ("error", "1"), ("session[pw]", "x")),
    }
    files = tuple(f"/{name}{suffix}" for name in ("login", "any", "basic", "home")) + (api, "/", "/admin/", "/admin")
    return [
        Door("login", f"/login{suffix}", files=files, **echoes),
        Door("any", f"/any{suffix}", files=files, **echoes),
        Door("api", api, "json", files=files, **echoes),
        Door("basic", f"/basic{suffix}", "basic", method="GET", files=files, **echoes),
    ]


def routes_of(suffix, api):
    """The four, in a user's file."""
    login, anywhere = form_route("login", f"/login{suffix}", PAGE_RULES), form_route(
        "any", f"/any{suffix}", REDIRECT_RULES
    )
    return login + anywhere + JSON_ROUTE.format(api) + BASIC_ROUTE.format(f"/basic{suffix}")


class Php:
    """The site of sites/php on PHP's own server, with the settings that Debian has for it."""

    name = "php-ini"
    options = ()
    doors = [
        *doors_of(".php", "/api/session.php"),
        Door("index", "/admin/index.php", echoes=("note",), files=("/admin/", "/admin")),
    ]
    # PHP's own server takes the index of a directory for every path in it that is no file.
    routes = routes_of(".php", "/api/session.php") + form_route("index", "/admin/**", PAGE_RULES)

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """The server, for the length of the block."""
        log = attempts_log(directory)
        env = {"ATTEMPTS": str(log), "PHP_CLI_SERVER_WORKERS": "4"}
        command = ["php", *cls.options, *SETTINGS, "-S", "%s:%d" % address, "-t", str(HERE / "sites" / "php")]
        with running("php -S", command, directory / "php.log", env) as server:
            wait_until(lambda: accepts(address), server)
            yield Target(cls.name, log, cls.routes, cls.doors)


class PhpBare(Php):
    """The same without any php.ini, so that cookies are parameters as well."""

    name = "php-bare"
    options = ("-n",)


class PhpFpm(Php):
    """The same behind nginx, by FastCGI."""

    name = "php-fpm"
    server = "nginx"
    target = Target

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """Both servers, for the length of the block."""
        log, socket = attempts_log(directory), directory / "fpm.sock"
        # root's workers stay root, because they have to reach this directory.
        words = {
            "directory": directory,
            "socket": socket,
            "log": log,
            "root": HERE / "sites" / "php",
            "address": "%s:%d" % address,
        }
        words["user"] = cls.user if os.getuid() == 0 else ""
        for name in ("fpm.conf", f"{cls.server}.conf"):
            (directory / name).write_text((HERE / "sites" / name).read_text().format(**words))
        fpm = sorted(Path("/usr/sbin").glob("php-fpm*"))[-1]
        command = [str(fpm), "-F", "-y", str(directory / "fpm.conf"), *(["-R"] if os.getuid() == 0 else [])]
        with running("php-fpm", command, directory / "fpm.log") as server:
            wait_until(socket.exists, server)
            with running(cls.server, cls.front(directory), directory / "front.log") as server:
                wait_until(lambda: accepts(address), server)
                yield cls.target(cls.name, log, cls.routes, cls.doors)

    user = "user root;"
    routes = Php.routes.replace("/admin/**", "/admin/index.php")

    @staticmethod
    def front(directory):
        """The server in front of it."""
        return ["/usr/sbin/nginx", "-e", str(directory / "nginx.log"), "-c", str(directory / "nginx.conf")]


class ApacheTarget(Target):
    """Where the server itself compares passwords, the name stands for them."""

    @staticmethod
    def compares(line):
        """PHP's lines, and those of the modules that look at Basic."""
        return line.startswith("{") or "AH01617" in line or "AH01618" in line


class PhpApache(PhpFpm):
    """The same behind Apache, and files behind Apache's own Basic."""

    name = "php-apache"
    server = "apache"
    target = ApacheTarget
    user = "User www-data\nGroup www-data"
    doors = [
        *Php.doors,
        Door(
            "files", "/files/a.txt", "basic", method="GET", neutral=True, files=("/files/", "/files", "/files/a.txt/x")
        ),
    ]
    # The server compares passwords of PATH_INFO as well, so its Basic is on every path.
    routes = PhpFpm.routes.replace("ANY /basic.php", "ANY /**")

    @staticmethod
    def front(directory):
        """Its files, and the server."""
        (directory / "files").mkdir()
        (directory / "files" / "a.txt").write_text("inside\n" * 99)
        (directory / "users").write_text("margaret:{SHA}never\n")
        reach(directory)
        return ["/usr/sbin/apache2", "-DFOREGROUND", "-f", str(directory / "apache.conf")]


def reach(directory):
    """Lets the workers of a server that gives up root come as far as this directory."""
    for place in (directory, *directory.parents[:2]):
        if place.owner() == "root" and str(place).startswith(tempfile.gettempdir() + "/"):
            place.chmod(0o755)


class Site:
    """A site of this directory that a command starts."""

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """The server, for the length of the block."""
        log = attempts_log(directory)
        with running(
            cls.name, cls.command(address), directory / "server.log", {"ATTEMPTS": str(log)} | cls.env
        ) as server:
            wait_until(lambda: accepts(address), server)
            yield Target(cls.name, log, routes_of("", "/api/session"), doors_of("", "/api/session"))


class Flask(Site):
    """On gunicorn."""

    name = "flask"
    env = {"PYTHONDONTWRITEBYTECODE": "1"}

    @staticmethod
    def command(address):
        """Two workers of four threads."""
        return [
            str(PYTHON),
            "-m",
            "gunicorn",
            "-w",
            "2",
            "--threads",
            "4",
            "-b",
            "%s:%d" % address,
            "--chdir",
            str(HERE / "sites"),
            "flask_site:app",
        ]


class Express(Site):
    """On node."""

    name = "express"
    env = {"NODE_PATH": str(TOOLS / "node" / "node_modules")}

    @staticmethod
    def command(address):
        """One process."""
        return ["node", str(HERE / "sites" / "express_site.js"), address[0], str(address[1])]


class Rails(Site):
    """On puma, both from Debian."""

    name = "rails"
    env = {"RAILS_ENV": "production"}

    @staticmethod
    def command(address):
        """One process of four threads."""
        return [
            "puma",
            "-q",
            "-t",
            "4:4",
            "-e",
            "production",
            "-b",
            "tcp://%s:%d" % address,
            str(HERE / "sites" / "rails_site.ru"),
        ]
