"""Second steps: five servers that know from a session's cookie whose code is guessed, and a search for its spellings.

Each case signs in with an account of its own, through the gate and from elsewhere. The codes that the application then
compares for this account have to stand in the account's bucket, however the session was named. One that stands in the
bucket of strangers instead is told, as is any attempt that is not on its account; docs/signin.md says how large it is.
"""

import shutil
from contextlib import contextmanager
from dataclasses import dataclass

import cookie_edits
import edits
from draft import Door, Draft, Guess
from gates import ACCOUNT, front
from own_sites import Site
from processes import accepts, running, wait_until
from search import base36
from target import HERE, PYTHON, TOOLS, Target, attempts_log
from tomcat import Tomcat
from wire import Connection, write
from wordpress import SETTINGS

STEPS = HERE / "sites" / "steps"
WAYS = ("plain", "plain", "tls", "h2")
ROUTES = """
[route.login]
match = "POST /login{suffix}"
user = "form:login"
password = "form:pw"
success = {{ status = 302, location = "/code*" }}

[route.code]
match = "ANY /code{suffix}"
when = "form:code"
step = "after"
success = {{ status = 302, location = "/home*" }}
"""
OTHERS_LAST = 500  # cases; a gate forgets a session that rests


def doors_of(suffix, grammar):
    """The second step; what else stands in the form is of no use to it."""
    files = tuple(f"/{name}{suffix}" for name in ("code", "login", "home")) + ("/",)
    door = {"user": "note", "password": "code", "files": files, "echoes": ("note",)}
    return [
        Door("code", f"/code{suffix}", grammar=grammar, **door),
        Door("code-in-query", f"/code{suffix}", "query", grammar=grammar, **door),
    ]


@dataclass
class StepTarget(Target):
    """A site with two steps behind one gate."""

    suffix: str = ""
    limit: str = ACCOUNT

    def gates(self, binary, directory, inside):
        """One that counts by account."""
        yield "plain", front(binary, directory / "plain", inside, self.routes, self.limit)

    def session_for(self, trial):
        """The cookie of an account that signs in for this case."""
        if trial.number % OTHERS_LAST == 1:
            self.others = self.sign_in(trial.front, f"other{trial.number}", trial.number)
        if trial.session is None:
            trial.session = self.sign_in(trial.front, account(trial.number), trial.number)
        return trial.session, ()

    def sign_in(self, gate, user, number, password="right-one"):
        """The right password, from an address that sends nothing else; the cookies of the session, if there is one."""
        answer = self.ask(gate, f"/login{self.suffix}", {"login": user, "pw": password}, visitor(number))
        cookie = answer.header("set-cookie")
        return [cookie.partition(";")[0]] if cookie else []

    def ask(self, gate, path, form, source, cookies=()):
        """One form as a browser sends it."""
        draft = Draft(Door("form", path), {}, "POST", path, cookies=list(cookies))
        draft.fields = [[name, value, None] for name, value in form.items()]
        connection = Connection(gate.plain, source)
        answer = connection.send(write(draft, "app.example"))
        connection.close()
        return answer

    @staticmethod
    def owed(trial):
        """One for the sign-in of each account, and one for each of its codes."""
        users = list(trial.users.values())
        return {user: 1 + users.count(user) for user in users}

    @staticmethod
    def right(token):
        """A code that is right for every account."""
        return Guess(token, f"right-{token}", token)


def account(number):
    """The account of a case; no request has such a name for itself."""
    return f"zq{base36(number)}9m"


def visitor(number):
    """An address of those who only sign in."""
    return f"127.3.{number >> 8 & 255}.{number & 255}"


class Steps(Site):
    """A site with two steps, on a server that a command starts."""

    suffix = ""
    grammar = tuple(cookie_edits.NAMES)
    target = StepTarget

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """The server, for the length of the block."""
        log = attempts_log(directory)
        env = {"ATTEMPTS": str(log)} | cls.env
        with running(cls.name, cls.command(address), directory / "server.log", env) as server:
            wait_until(lambda: accepts(address), server)
            yield cls.running_at(log)

    @classmethod
    def running_at(cls, log):
        """What is known of the server."""
        routes, doors = ROUTES.format(suffix=cls.suffix), doors_of(cls.suffix, cls.grammar)
        return cls.target(cls.name, log, routes, doors, ways=WAYS, suffix=cls.suffix)


class FlaskSteps(Steps):
    """On gunicorn; the session is in the cookie, and signed."""

    name = "cookies-flask"
    env = {"PYTHONDONTWRITEBYTECODE": "1"}

    @staticmethod
    def command(address):
        """Two workers of four threads."""
        server = [str(PYTHON), "-m", "gunicorn", "-w", "2", "--threads", "4", "-b", "%s:%d" % address]
        return [*server, "--chdir", str(STEPS), "flask_steps:app"]


class ExpressSteps(Steps):
    """On node, with express-session."""

    name = "cookies-express"
    env = {"NODE_PATH": str(TOOLS / "node" / "node_modules")}

    @staticmethod
    def command(address):
        """One process."""
        return ["node", str(STEPS / "express_steps.js"), address[0], str(address[1])]


class RailsSteps(Steps):
    """On puma; the session is in the cookie, and encrypted."""

    name = "cookies-rails"
    env = {"RAILS_ENV": "production"}

    @staticmethod
    def command(address):
        """One process of four threads."""
        bind = "tcp://%s:%d" % address
        return ["puma", "-q", "-t", "4:4", "-e", "production", "-b", bind, str(STEPS / "rails_steps.ru")]


class PhpSteps(Steps):
    """On PHP's own server, which may take the session from the query as well."""

    name = "cookies-php"
    suffix = ".php"
    env = {"PHP_CLI_SERVER_WORKERS": "4"}

    @staticmethod
    def command(address):
        """With the settings that old sites have."""
        options = ["-d", "session.use_only_cookies=0", "-d", "session.use_trans_sid=1"]
        return ["php", *SETTINGS, *options, "-S", "%s:%d" % address, "-t", str(STEPS / "php")]


class TomcatSteps(Steps):
    """On Tomcat, which takes the session from the path as well."""

    name = "cookies-tomcat"
    suffix = ".jsp"

    @classmethod
    @contextmanager
    def start(cls, directory, address, site):
        """The container, for the length of the block."""
        shutil.copytree(STEPS / "tomcat", directory / "steps")
        log = attempts_log(directory)
        with Tomcat.start(directory, address, site, [STEPS / "tomcat" / "server.xml"]):
            yield cls.running_at(log)


COOKIES = (PhpSteps, RailsSteps, ExpressSteps, FlaskSteps, TomcatSteps)
EVERYTHING = tuple(edits.NAMES) + tuple(cookie_edits.NAMES) * 3
