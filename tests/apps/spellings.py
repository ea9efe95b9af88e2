"""Which spellings of a form's address an application takes: tests/preset_paths/taken has them, and the presets are held
against them.

A wrong password is sent to each spelling; where it is judged, the application took it for the form. Nothing is said of
spellings that it did not take.

Usage: python3 tests/apps/spellings.py [NAME...]     UPDATE=1 writes the files anew; read the difference.
"""

import os
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode

import django_admin
import mediawiki
import phpmyadmin
import roundcube
import synapse
import tomcat
import wordpress
from apache import Apache
from nginx_php import NginxPhp
from person import USER
from processes import free_address, stop_all, url
from rails import Rails
from recording import Visitor
from report import Report, Wrong

TAKEN = Path(__file__).parent.parent / "preset_paths" / "taken"


class Form:
    """Where one application signs people in: what is sent there, and what only a judged password is answered."""

    def __init__(self, application, targets, fields, judged, prepare=None, kind="form"):
        self.application, self.targets, self.fields = application, targets, fields
        self.judged, self.prepare, self.kind = judged, prepare, kind

    def takes(self, address, target):
        """Whether a wrong password is judged there."""
        visitor = Visitor(address, [])
        fields = dict(self.fields, **(self.prepare(visitor) if self.prepare else {}))
        send = visitor.json if self.kind == "json" else visitor.form
        try:
            return self.judged in send(target, fields).body
        except OSError:
            return False

    def line(self, target):
        """A request as tests/preset_paths writes it."""
        value = '{"password":"wrong"}' if self.kind == "json" else urlencode(self.fields)
        return f"POST {target} {self.kind} {value}"


def django_token(visitor):
    """The form's token, which has to be in a cookie as well."""
    visitor.get(django_admin.FORM)
    return {"csrfmiddlewaretoken": visitor.cookies["csrftoken"]}


def roundcube_token(visitor):
    """The token of a new session."""
    return {"_token": visitor.get(roundcube.FORM).find('name="_token" value="([^"]+)')}


def mediawiki_token(visitor):
    """The token of a new session."""
    return {"wpLoginToken": visitor.get(mediawiki.FORM).find('name="wpLoginToken" type="hidden" value="([^"]+)"')}


def phpmyadmin_token(visitor):
    """The token of a new session."""
    token = visitor.get(phpmyadmin.FORM).find('name="token" value="([^"]+)')
    return {"token": token, "set_session": visitor.cookies.get("phpMyAdmin", "")}


def tomcat_session(visitor):
    """The session that a protected page opens."""
    visitor.get(tomcat.PAGE)
    return {}


FORMS = [
    Form(Apache, ["/admin/index.php"], {"user": USER, "password": "wrong"}, "judged"),
    Form(NginxPhp, ["/admin/index.php"], {"user": USER, "password": "wrong"}, "judged"),
    Form(
        Rails,
        ["/users/sign_in", "/oauth/token"],
        {"user[login]": USER, "user[password]": "wrong", "username": USER, "password": "wrong"},
        "judged",
    ),
    Form(wordpress.WordPress, ["/wp-login.php"], {"log": USER, "pwd": "wrong"}, "is incorrect"),
    Form(
        phpmyadmin.PhpMyAdmin,
        ["/index.php?route=/", "/index.php"],
        {"pma_username": USER, "pma_password": "wrong", "server": "1"},
        "Access denied for user",
        phpmyadmin_token,
    ),
    Form(
        roundcube.Roundcube,
        ["/index.php"],
        {"_task": "login", "_action": "login", "_user": USER, "_pass": "wrong"},
        "Login failed",
        roundcube_token,
    ),
    Form(
        mediawiki.MediaWiki,
        ["/index.php?title=Special:UserLogin", "/index.php/Special:UserLogin"],
        {"wpName": USER, "wpPassword": "wrong", "authAction": "login", "wploginattempt": "x", "wpEditToken": "+\\"},
        "Incorrect username or password",
        mediawiki_token,
    ),
    Form(
        django_admin.DjangoAdmin,
        [django_admin.FORM],
        {"username": USER, "password": "wrong"},
        "Please enter the correct",
        django_token,
    ),
    Form(
        tomcat.Tomcat,
        [tomcat.FORM],
        {"j_username": USER, "j_password": "wrong"},
        "Invalid user name",
        tomcat_session,
    ),
    Form(
        synapse.Synapse,
        [synapse.FORM, "/_matrix/client/api/v1/login"],
        {"type": "m.login.password", "user": USER, "password": "wrong"},
        "Invalid username or password",
        kind="json",
    ),
]


def spellings(target):
    """Every front, every disguise and every ending, in pairs."""
    path, mark, query = target.partition("?")
    directory, _, name = path.rstrip("/").rpartition("/")
    stem = name.rpartition(".")[0]
    paths = {path, path.rstrip("/") or "/", path.upper(), directory or "/", f"{directory}/", f"{directory}/index"}
    paths |= {f"{directory}/{stem}"} if stem else set()
    paths |= {f"{directory}/%{ord(name[0]):02x}{name[1:]}", f"{directory}/%25{ord(name[0]):02x}{name[1:]}"}
    fronts = ["", "/", "/.", "/%2e", "/x/..", "/x/%2e%2e", "/..", "/;a", "/x;a/..", "/index.php", "/index", "/x.php"]
    endings = ["", "/", "//", "/x", "/x.css", "/x.php", ".json", ".php", ".html", ".", "%20", ";a=b", ";", "/.", "%2f"]
    endings += ["/index.php", "/index.html", "/index", "/default.aspx", "%3fx", "::$DATA", "\\", "/%2e", "/x/.."]
    endings += [".xml", ".anything"]
    ended = {f"{path}{ending}" for path in paths for ending in endings} | {f"{front}{path}" for path in paths for front in fronts}
    ended |= {f"{front}{path}{ending}" for front in fronts for ending in endings}
    return sorted(f"{path}{mark}{query}" for path in ended)


def main():
    """All applications, two at a time; what is wrong with one does not hide the others."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupted)
    wanted = sys.argv[1:]
    chosen = [form for form in FORMS if not wanted or form.application.preset in wanted]
    began = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(trial, chosen))
    print(f"{sum(results)} of {len(results)} applications take what they took, {time.monotonic() - began:.0f} s")
    sys.exit(0 if all(results) else 1)


def interrupted(number, _):
    """Ends what runs; the trials then fail, clean up and return before the interpreter does."""
    stop_all()
    sys.exit(128 + number)


def trial(form):
    """One application from start to end; returns whether it takes no more than it took."""
    report, wrong, began = Report(f"{form.application.title} (spellings)"), None, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tollgate-spellings-", ignore_cleanup_errors=True) as directory:
        try:
            compare(form, ask(form, Path(directory)), report)
        except Wrong as mismatch:
            wrong = mismatch
        except Exception as failure:  # whatever it is, the other trials go on
            wrong = f"{type(failure).__name__}: {failure}"
    report.note(f"{time.monotonic() - began:.0f} s")
    print(f"{report}\n  {f'WRONG: {wrong}' if wrong else 'as recorded'}\n", flush=True)
    return not wrong


def ask(form, directory):
    """Each spelling, and whether it was taken."""
    address = free_address()
    with form.application.start(directory, address, url(address)):
        asked = sorted({spelling for target in form.targets for spelling in spellings(target)})
        with ThreadPoolExecutor(4) as pool:
            return dict(zip(asked, pool.map(lambda target: form.takes(address, target), asked)))


def compare(form, answers, report):
    """What is taken beside the file: a spelling that is new is one that no preset was held against."""
    taken = [form.line(target) for target, is_taken in answers.items() if is_taken]
    report.note(f"takes {len(taken)} of {len(answers)} spellings")
    file = TAKEN / f"{form.application.preset}.txt"
    if "UPDATE" in os.environ:
        file.parent.mkdir(parents=True, exist_ok=True)
        head = [f"# {form.application.title}"]
        head += [f"# match: {pattern}" for pattern in getattr(form.application, "match", [])]
        file.write_text("\n".join([*head, *taken]) + "\n")
    known = file.read_text().splitlines() if file.exists() else []
    if new := [line for line in taken if line not in known]:
        raise Wrong("\n".join([f"takes {len(new)} spellings that are not in {file.name}:", *new[:40]]))
    report.check(taken, f"all {len(taken)} are known" if taken else "the form's own address is taken")


if __name__ == "__main__":
    main()
