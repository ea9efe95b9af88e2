"""Applications of others, as tests/apps starts them, with their presets and a log of the passwords they compare."""

import itertools
import random
import re
from contextlib import contextmanager

from django_admin import DjangoAdmin
from draft import Door, Guess
from mediawiki import FORM as WIKI_FORM
from mediawiki import MediaWiki
from phpmyadmin import PhpMyAdmin
from recording import Visitor
from target import HERE, PYTHON, Target, attempts_log
from tomcat import Tomcat
from wordpress import WordPress


ACCOUNTS = 50_000  # at Tomcat: more right passwords than an hour tries
NEXT_ACCOUNT = itertools.count()
RULED = (b"wp-login.php", b"wp-signup.php", b"xmlrpc.php", b"admin-ajax.php")  # pages of WordPress with rules of their own


class Django:
    """Django's admin on gunicorn, with its preset."""

    name = "django"

    @classmethod
    @contextmanager
    def start(cls, directory, address, site):
        """As scripts/real-apps has it, with a log of attempts and another server."""
        log, token = attempts_log(directory), "c" * 32
        door = Door(
            "login",
            "/admin/login/",
            user="username",
            password="password",
            fields=(("csrfmiddlewaretoken", token),),
            files=("/admin/", "/admin/login", "/admin", "/admin/logout/", "/admin/password_change/", "/"),
            echoes=("next",),
            extras=(
                ("next", "/admin/"),
                ("next", "/x" * 40_000),
                ("this_is_the_login_form", "1"),
                ("csrfmiddlewaretoken", "x"),
            ),
        )
        with DjangoAdmin.start(directory, address, site, attempts=log, python=str(PYTHON), gunicorn=True):
            yield Target(
                cls.name, log, '\n[route.site]\npreset = "django-admin"\n', [door], lambda: ([f"csrftoken={token}"], ())
            )


class TomcatServer:
    """Tomcat's examples, whose realm says whom it was asked about; so the marks are the names."""

    name = "tomcat"

    @classmethod
    @contextmanager
    def start(cls, directory, address, site):
        """As scripts/real-apps has it, with more to read in its log and many accounts."""
        prefix = "/examples/jsp/security/protected"
        files = (
            f"{prefix}/",
            f"{prefix}/index.jsp",
            f"{prefix}/j_security_check",
            "/basic/inside.txt",
            "/basic/outside.txt",
            "/basic/j_security_check",
            "/j_security_check",
        )
        doors = [
            Door(
                "form",
                f"{prefix}/j_security_check",
                user="j_username",
                password="j_password",
                files=files,
                echoes=("j_uri",),
            ),
            Door("basic", "/basic/inside.txt", "basic", method="GET", files=files),
        ]
        users = directory / "users.xml"
        accounts = "".join(
            f'<user username="good{number:05}" password="good" roles="tomcat"/>\n' for number in range(ACCOUNTS)
        )
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
    def right(_token):
        """The next of the accounts: a line of the log that comes late must not be taken for another account's."""
        name = f"good{next(NEXT_ACCOUNT) % ACCOUNTS:05}"
        return Guess(name, "good", name, True)


class WordPressTarget(Target):
    """It takes passwords of applications at every path that has no rule of its own, and there only a refusal is certain."""

    @staticmethod
    def is_neutral(trial, touched):
        """Whether the rule for those is the one."""
        return Target.is_neutral(trial, touched) or any(
            b"\nauthorization:" in raw.lower() and not any(page in raw.split(b"\n", 1)[0] for page in RULED)
            for raw in trial.raw
        )


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
            yield WordPressTarget(cls.name, log, '\n[route.site]\npreset = "wordpress"\n', cls.doors())

    @staticmethod
    def doors():
        """The form, XML-RPC with one and with several guesses, and the REST API."""
        files = (
            "/wp-login.php",
            "/xmlrpc.php",
            "/index.php",
            "/",
            "/wp-admin/",
            "/wp-json/wp/v2/users/me",
            "/login",
            "/wp-admin/admin-ajax.php",
            "/wp-comments-post.php",
            "/wp-signup.php",
            "/wp-trackback.php",
            "/wp-mail.php",
            "/wp-cron.php",
            "/wp-admin/index.php",
        )
        extras = [
            ("action", value)
            for value in (
                "login",
                "postpass",
                "lostpassword",
                "rp",
                "register",
                "confirm_admin_email",
                "x",
                "entered_recovery_mode",
            )
        ]
        extras += [
            ("interim-login", "1"),
            ("redirect_to[]", "x"),
            ("redirect_to", "/wp-admin/"),
            ("reauth", "1"),
            ("rememberme", "forever"),
            ("testcookie", "1"),
            ("log[]", "x"),
            ("pwd[]", "x"),
            ("rest_route", "/wp/v2/users/me"),
            ("rsd", ""),
            ("post_password", "x"),
            ("customize-login", "1"),
            ("wp_lang", "de_DE"),
            ("loggedout", "true"),
            ("checkemail", "confirm"),
            ("author", "1"),
        ]
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
            Door(
                "blogger",
                "/xmlrpc.php",
                "xml",
                named=False,
                xml=call.format("blogger.getUsersBlogs", param.format("1") + both),
                **shared,
            ),
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
            line = "$said = json_encode(compact('user', 'password'), JSON_INVALID_UTF8_SUBSTITUTE);"
            line += f"file_put_contents('{log}', $said . PHP_EOL, FILE_APPEND);"
            line += "if (strpos($password, 'right-') === 0) { $password = 'correct-horse-battery-staple'; }"
            text, count = re.subn(
                r"(public function connect\(\$user, \$password, array \$server\)\s*\{)",
                lambda found: found[1] + line,
                driver.read_text(),
            )
            assert count == 1, "this phpMyAdmin connects elsewhere"
            driver.write_text(text)
            yield Target(
                cls.name, log, '\n[route.site]\npreset = "phpmyadmin"\n', cls.doors(), lambda: cls.session(address)
            )

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
        extras = [("route", route) for route in routes] + [
            ("lang", "de"),
            ("lang[]", "x"),
            ("server", "1"),
            ("server", "0"),
            ("server[]", "1"),
            ("ajax_request", "1"),
            ("old_usr", "x"),
            ("set_session", "x"),
            ("set_theme", "x"),
            ("db[]", "x"),
            ("target", "x"),
            ("pma_servername", "x"),
            ("collation_connection[]", "x"),
            ("GLOBALS", "x"),
            ("token", "x"),
            ("token[]", "x"),
            ("pma_password[]", "x"),
            ("session_timedout", "1"),
            ("no_debug", "1"),
            ("access_time", "1"),
        ]
        fields = (("server", "1"), ("route", "/"))
        return [
            Door(
                "form",
                "/index.php",
                user="pma_username",
                password="pma_password",
                query=("route=/",),
                fields=fields,
                files=files,
                echoes=("db", "table", "target"),
                extras=tuple(extras),
            )
        ]


class Wiki:
    """MediaWiki, whose hook says whom a sign-in was about; so the marks are the names."""

    name = "mediawiki"

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """As scripts/real-apps has it."""
        log = attempts_log(directory)
        hook = "$wgHooks['AuthManagerLoginAuthenticateAudit'][] = function ($response, $user, $name) {\n"
        hook += f"    file_put_contents('{log}', json_encode(['user' => $name]) . PHP_EOL, FILE_APPEND);\n}};\n"
        hook += f"$wgCacheDirectory = '{directory}';\n"  # or all its words are read anew for each request
        with MediaWiki.start(directory, address, "http://app.example", hook):
            routes = '\n[route.site]\npreset = "mediawiki"\n'
            yield WikiTarget(cls.name, log, routes, cls.doors(), lambda: cls.session(address))

    @staticmethod
    def session(address):
        """A visitor with the token that the form and the API ask for, by all its names."""
        visitor = Visitor(address, [])
        token = visitor.get(WIKI_FORM).find('name="wpLoginToken" type="hidden" value="([^"]+)"')
        cookies = [f"{name}={value}" for name, value in visitor.cookies.items()]
        return cookies, tuple((name, token) for name in ("wpLoginToken", "lgtoken", "logintoken"))

    @staticmethod
    def doors():
        """The form, and both sign-ins of the API."""
        files = (
            "/index.php/Special:UserLogin",
            "/index.php",
            "/api.php",
            "/",
            "/rest.php",
            "/load.php",
            "/index.php/Main_Page",
        )
        titles = (
            "Special:UserLogin",
            "Special:Userlogin",
            "special:login",
            "Special:Login",
            "Main_Page",
            "Special:CreateAccount",
            "Special:LinkAccounts",
            "Special:ChangeCredentials",
            "Special:BotPasswords",
            "Special%3aUserLogin",
            "Special:_UserLogin",
        )
        extras = [("title", title) for title in titles] + [
            ("authAction", "login"),
            ("authAction", "login-continue"),
            ("force", "x"),
            ("useformat", "mobile"),
            ("uselang", "de"),
            ("returnto", "x"),
            ("action", "raw"),
            ("wpRemember", "1"),
            ("fromhttp", "1"),
            ("action", "login"),
            ("action", "clientlogin"),
            ("format", "xml"),
            ("format", "php"),
            ("formatversion", "2"),
            ("curid", "1"),
        ]
        shared = {"files": files, "extras": tuple(extras), "echoes": ("returnto", "returntoquery", "wpName")}
        form = (
            ("wploginattempt", "Log in"),
            ("wpEditToken", "+\\"),
            ("title", "Special:UserLogin"),
            ("authAction", "login"),
            ("force", ""),
        )
        client = (("action", "clientlogin"), ("format", "json"), ("loginreturnurl", "http://app.example/"))
        return [
            Door(
                "form",
                "/index.php",
                user="wpName",
                password="wpPassword",
                query=("title=Special:UserLogin",),
                fields=form,
                **shared,
            ),
            Door(
                "api",
                "/api.php",
                user="lgname",
                password="lgpassword",
                fields=(("action", "login"), ("format", "json")),
                **shared,
            ),
            Door("client", "/api.php", user="username", password="password", fields=client, **shared),
        ]


class WikiTarget(Target):
    """Its log knows names only, and none of them is right."""

    @staticmethod
    def password(line):
        """The name stands for it."""
        return line

    @staticmethod
    def right(token):
        """Another wrong one."""
        return Guess(token, token, token)
