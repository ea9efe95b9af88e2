"""The applications: how each is started, what a user would write for it, and where its own log shows the passwords it compares."""

import json
import os
import random
import re
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from draft import Door, Guess
from django_admin import DjangoAdmin
from phpmyadmin import PhpMyAdmin
from processes import accepts, running, wait_until
from recording import Visitor
from tomcat import Tomcat
from wordpress import SETTINGS, WordPress

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
    def right(token, _number):
        """A right name and password that no other request has."""
        return Guess("margaret", f"right-{token}", token, True)


def attempts_log(directory):
    """An empty log of attempts."""
    log = directory / "attempts.log"
    log.touch()
    log.chmod(0o666)
    return log


def form_route(name, path, rest):
    """A route as a user writes it."""
    return f'\n[route.{name}]\nmatch = "POST {path}"\nuser = "form:login"\npassword = "form:pw"\n{rest}\n'


BASIC_ROUTE = '''
[route.basic]
match = "ANY {}"
when = "basic"
user = "basic"
password = "basic"
success = {{ status = 200 }}
'''
JSON_ROUTE = '''
[route.api]
match = "POST {}"
user = "json:/login"
password = "json:/pw"
failure = {{ status = 401 }}
success = {{ status = 200 }}
'''
PAGE_RULES = 'failure = { body = "Login failed" }\notherwise = "success"'
REDIRECT_RULES = 'success = { status = 302, location = "/home*" }'


def doors_of(suffix, api):
    """Four ways in, as the sites of this directory have them."""
    echoes = {"echoes": ("note", "next"), "extras": (("next", "/home"), ("note", "Welcome"), ("error", "1"), ("session[pw]", "x"))}
    files = tuple(f"/{name}{suffix}" for name in ("login", "any", "basic", "home")) + (api, "/", "/admin/", "/admin")
    return [
        Door("login", f"/login{suffix}", files=files, **echoes),
        Door("any", f"/any{suffix}", files=files, **echoes),
        Door("api", api, "json", files=files, **echoes),
        Door("basic", f"/basic{suffix}", "basic", method="GET", files=files, **echoes),
    ]


def routes_of(suffix, api):
    """The four, in a user's file."""
    login, anywhere = form_route("login", f"/login{suffix}", PAGE_RULES), form_route("any", f"/any{suffix}", REDIRECT_RULES)
    return login + anywhere + JSON_ROUTE.format(api) + BASIC_ROUTE.format(f"/basic{suffix}")


class Php:
    """The site of sites/php on PHP's own server, with the settings that Debian has for it."""

    name = "php-ini"
    options = ()
    doors = [*doors_of(".php", "/api/session.php"), Door("index", "/admin/index.php", echoes=("note",), files=("/admin/", "/admin"))]
    routes = routes_of(".php", "/api/session.php") + form_route("index", "/admin/index.php", PAGE_RULES)

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
        words = {"directory": directory, "socket": socket, "log": log, "root": HERE / "sites" / "php", "address": "%s:%d" % address}
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
    doors = [*Php.doors, Door("files", "/files/a.txt", "basic", method="GET", files=("/files/", "/files", "/files/a.txt/x"))]
    # The server compares passwords of PATH_INFO as well, so its Basic is on every path.
    routes = Php.routes.replace("ANY /basic.php", "ANY /**")

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
        with running(cls.name, cls.command(address), directory / "server.log", {"ATTEMPTS": str(log)} | cls.env) as server:
            wait_until(lambda: accepts(address), server)
            yield Target(cls.name, log, routes_of("", "/api/session"), doors_of("", "/api/session"))


class Flask(Site):
    """On gunicorn."""

    name = "flask"
    env = {"PYTHONDONTWRITEBYTECODE": "1"}

    @staticmethod
    def command(address):
        """Two workers of four threads."""
        return [str(PYTHON), "-m", "gunicorn", "-w", "2", "--threads", "4", "-b", "%s:%d" % address, "--chdir", str(HERE / "sites"), "flask_site:app"]


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
        return ["puma", "-q", "-t", "4:4", "-e", "production", "-b", "tcp://%s:%d" % address, str(HERE / "sites" / "rails_site.ru")]


class Django:
    """Django's admin on gunicorn, with its preset."""

    name = "django"

    @classmethod
    @contextmanager
    def start(cls, directory, address, site):
        """As scripts/real-apps has it, with a log of attempts and another server."""
        log, token = attempts_log(directory), "c" * 32
        door = Door("login", "/admin/login/", user="username", password="password", fields=(("csrfmiddlewaretoken", token),),
                    files=("/admin/", "/admin/login", "/admin", "/admin/logout/", "/admin/password_change/", "/"), echoes=("next",),
                    extras=(("next", "/admin/"), ("next", "/x" * 40_000), ("this_is_the_login_form", "1"), ("csrfmiddlewaretoken", "x")))  # fmt: skip
        with DjangoAdmin.start(directory, address, site, attempts=log, python=str(PYTHON), gunicorn=True):
            yield Target(cls.name, log, '\n[route.site]\npreset = "django-admin"\n', [door], lambda: ([f"csrftoken={token}"], ()))


class TomcatServer:
    """Tomcat's examples, whose realm says whom it was asked about; so the marks are the names."""

    name = "tomcat"

    @classmethod
    @contextmanager
    def start(cls, directory, address, site):
        """As scripts/real-apps has it, with more to read in its log and many accounts."""
        prefix = "/examples/jsp/security/protected"
        files = (f"{prefix}/", f"{prefix}/index.jsp", f"{prefix}/j_security_check", "/basic/inside.txt", "/basic/j_security_check", "/j_security_check")
        doors = [
            Door("form", f"{prefix}/j_security_check", user="j_username", password="j_password", files=files, echoes=("j_uri",)),
            Door("basic", "/basic/inside.txt", "basic", method="GET", files=files),
            Door("basic-elsewhere", "/basic/outside.txt", "basic", method="GET", files=files),
        ]
        users = directory / "users.xml"
        accounts = "".join(f'<user username="good{number:04}" password="good" roles="tomcat"/>\n' for number in range(2_000))
        conf = directory / "more"
        directory.mkdir(exist_ok=True)
        conf.mkdir()
        users = conf / "users.xml"
        users.write_text(f'<tomcat-users xmlns="http://tomcat.apache.org/xml">\n{accounts}</tomcat-users>\n')
        with Tomcat.start(directory, address, site, [users, HERE / "sites" / "logging.properties"]):
            routes = '\n[route.site]\npreset = "tomcat"\n'
            yield TomcatTarget(cls.name, directory / "tomcat.log", routes, doors, lambda: cls.session(address))

    @staticmethod
    def session(address):
        """Some have asked for the page behind the form; a right password is of use to them only."""
        if random.random() < 0.7:
            return (), ()
        visitor = Visitor(address, [])
        visitor.get("/examples/jsp/security/protected/index.jsp")
        return [f"{name}={value}" for name, value in visitor.cookies.items()], ()


class TomcatTarget(Target):
    """Its log, and its accounts."""

    @staticmethod
    def compares(line):
        """What the realm says when it has looked at a password."""
        return "authenticate" in line and ("Username" in line or "username" in line or "user" in line)

    @staticmethod
    def password(line):
        """The name stands for it."""
        return line

    @staticmethod
    def user(line):
        """The name."""
        return line.partition("sername [")[2].rpartition("]")[0]

    @staticmethod
    def right(_token, number):
        """One of the accounts."""
        return Guess(f"good{number % 2_000:04}", "good", f"good{number % 2_000:04}", True)


class WordPressSite:
    """WordPress with a plugin that writes down what is compared."""

    name = "wordpress"

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """As scripts/real-apps has it."""
        log = attempts_log(directory)
        with WordPress.start(directory, address, "http://app.example"):
            plugins = directory / "root" / "wp-content" / "mu-plugins"
            plugins.mkdir(exist_ok=True)
            plugin = (HERE / "sites" / "wordpress_attempts.php").read_text()
            (plugins / "attempts.php").write_text(plugin.replace("ATTEMPTS_LOG", str(log)))
            yield Target(cls.name, log, '\n[route.site]\npreset = "wordpress"\n', cls.doors())

    @staticmethod
    def doors():
        """The form, XML-RPC with one and with several guesses, and the REST API."""
        files = ("/wp-login.php", "/xmlrpc.php", "/index.php", "/", "/wp-admin/", "/wp-json/wp/v2/users/me", "/login", "/wp-admin/admin-ajax.php",
                 "/wp-comments-post.php", "/wp-signup.php", "/wp-trackback.php", "/wp-mail.php", "/wp-cron.php", "/wp-admin/index.php")  # fmt: skip
        extras = [("action", value) for value in ("login", "postpass", "lostpassword", "rp", "register", "confirm_admin_email", "x", "entered_recovery_mode")]
        extras += [("interim-login", "1"), ("redirect_to[]", "x"), ("redirect_to", "/wp-admin/"), ("reauth", "1"), ("rememberme", "forever"),
                   ("testcookie", "1"), ("log[]", "x"), ("pwd[]", "x"), ("rest_route", "/wp/v2/users/me"), ("rsd", ""), ("post_password", "x"),
                   ("customize-login", "1"), ("wp_lang", "de_DE"), ("loggedout", "true"), ("checkemail", "confirm"), ("author", "1")]  # fmt: skip
        call = "<methodCall><methodName>{}</methodName><params>{}</params></methodCall>"
        param = "<param><value><string>{}</string></value></param>"
        both = param.format("{user}") + param.format("{password}")
        member = "<member><name>{}</name><value>{}</value></member>"
        array = "<array><data>{}</data></array>"
        one = "<value><struct>" + member.format("methodName", "<string>wp.getUsersBlogs</string>")
        values = array.format("<value><string>{user}</string></value><value><string>{password}</string></value>")
        one += member.format("params", array.format(f"<value>{values}</value>")) + "</struct></value>"
        several = call.format("system.multicall", "<param><value>" + array.format(one) + "</value></param>")
        shared = {"files": files, "echoes": ("redirect_to", "log", "user_login"), "extras": tuple(extras)}
        return [
            Door("form", "/wp-login.php", user="log", password="pwd", **shared),
            Door("xmlrpc", "/xmlrpc.php", "xml", named=False, xml=call.format("wp.getUsersBlogs", both), **shared),
            Door("blogger", "/xmlrpc.php", "xml", named=False, xml=call.format("blogger.getUsersBlogs", param.format("1") + both), **shared),
            Door("multicall", "/xmlrpc.php", "xml", named=False, xml=several, **shared),
            Door("rest", "/wp-json/wp/v2/users/me", "basic", method="GET", neutral=True, **shared),
        ]


class PhpMyAdminSite:
    """phpMyAdmin, whose connections to its database say which passwords are tried."""

    name = "phpmyadmin"

    @classmethod
    @contextmanager
    def start(cls, directory, address, site):
        """As scripts/real-apps has it."""
        log = attempts_log(directory)
        with PhpMyAdmin.start(directory, address, site):
            driver = directory / "root" / "libraries" / "classes" / "Dbal" / "DbiMysqli.php"
            line = f"file_put_contents('{log}', json_encode(compact('user', 'password'), JSON_INVALID_UTF8_SUBSTITUTE) . \"\\n\", FILE_APPEND);"
            line += "if (strpos($password, 'right-') === 0) { $password = 'correct-horse-battery-staple'; }"
            text, count = re.subn(r"(public function connect\(\$user, \$password, array \$server\)\s*\{)", lambda found: found[1] + line, driver.read_text())
            assert count == 1, "this phpMyAdmin connects elsewhere"
            driver.write_text(text)
            yield Target(cls.name, log, '\n[route.site]\npreset = "phpmyadmin"\n', cls.doors(), lambda: cls.session(address))

    @staticmethod
    def session(address):
        """A visitor who has the form before them, which is good for one attempt."""
        visitor = Visitor(address, [])
        token = visitor.get("/index.php?route=/").find('name="token" value="([^"]+)')
        cookies = [f"{name}={value}" for name, value in visitor.cookies.items()]
        return cookies, (("token", token), ("set_session", visitor.cookies["phpMyAdmin"]))

    @staticmethod
    def doors():
        """The form takes its fields at every address."""
        files = ("/index.php", "/", "/index.php/sql", "/url.php", "/js/messages.php", "/show_config_errors.php")
        routes = ("/", "/sql", "/logout", "/server/databases", "/check-relations", "/navigation", "/database/structure")
        extras = [("route", route) for route in routes] + [("lang", "de"), ("lang[]", "x"), ("server", "1"), ("server", "0"), ("server[]", "1"), ("ajax_request", "1"),
                  ("old_usr", "x"), ("set_session", "x"), ("set_theme", "x"), ("db[]", "x"), ("target", "x"), ("pma_servername", "x"), ("collation_connection[]", "x"),
                  ("GLOBALS", "x"), ("token", "x"), ("token[]", "x"), ("pma_password[]", "x"), ("session_timedout", "1"), ("no_debug", "1"), ("access_time", "1")]  # fmt: skip
        fields = (("server", "1"), ("route", "/"))
        return [Door("form", "/index.php", user="pma_username", password="pma_password", query=("route=/",), fields=fields,
                     files=files, echoes=("db", "table", "target"), extras=tuple(extras))]  # fmt: skip


TARGETS = {one.name: one for one in (PhpBare, Php, PhpFpm, PhpApache, Flask, Express, Rails, Django, TomcatServer, WordPressSite, PhpMyAdminSite)}
QUICK = ["php-bare", "php-ini", "flask", "express", "django", "tomcat"]
