"""Visits to one application, written down: what was sent, and what of the answer matters to a gate.

Everything that differs from run to run is replaced by a made-up value, so that two recordings of one visit are equal
byte for byte. The files are what the presets are tested against.
"""

import http.client
import json
import re
from base64 import b64encode
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from urllib.parse import quote_plus, unquote_plus, urlencode

from report import Wrong

SITE = "http://app.example"
TOKEN = "made-up"
HEADERS = ("content-type", "location", "set-cookie", "www-authenticate")
PAST = "Thu, 01 Jan 1970 00:00:00 GMT"
FUTURE = "Fri, 31 Dec 2100 23:59:59 GMT"


@dataclass
class Answer:
    """An answer of the application."""

    status: int
    reason: str
    fields: list
    body: str

    def find(self, pattern):
        """What the only group of a pattern holds, somewhere in the body."""
        if not (found := re.search(pattern, self.body)):
            raise Wrong(f"no {pattern!r} in {self.status}: {self.body[:500]}")
        return found[1]

    def json(self, *path):
        """A member of a JSON answer."""
        value = json.loads(self.body)
        for step in path:
            value = value[step]
        return value


class Visitor:
    """A client with cookies and nothing else; `notes` collects what is to be kept of its requests."""

    def __init__(self, address, notes, source=None):
        self.address, self.notes, self.source = address, notes, source
        self.cookies, self.secrets = {}, {}

    def another(self, source=None):
        """Another visitor of the same application, from the same address or another one."""
        return Visitor(self.address, self.notes, source or self.source)

    def keep(self, secret, shown=TOKEN):
        """A value of this run that a recording must not show, and what it shows instead; returns the value."""
        self.secrets[secret] = shown
        return secret

    def get(self, path, **options):
        """A request without a body."""
        return self.ask("GET", path, **options)

    def form(self, path, fields, **options):
        """An urlencoded form."""
        return self.ask("POST", path, urlencode(fields), "application/x-www-form-urlencoded", **options)

    def json(self, path, value, **options):
        """A JSON body."""
        return self.ask("POST", path, json.dumps(value), "application/json", **options)

    def basic(self, path, user, password, **options):
        """A request with Basic authentication."""
        token = b64encode(f"{user}:{password}".encode()).decode()
        return self.ask("GET", path, headers={"Authorization": f"Basic {token}"}, **options)

    def ask(self, method, path, body=None, kind=None, headers=None, note=None):
        """Sends a request, keeps the cookies of its answer, and notes both if `note` says what they are."""
        headers = dict(headers or {}, Host="%s:%d" % self.address)
        if kind:
            headers["Content-Type"] = kind
        if self.cookies:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        source = self.source and (self.source, 0)
        connection = http.client.HTTPConnection(*self.address, timeout=30, source_address=source)
        connection.request(method, path, body and body.encode(), headers)
        came = connection.getresponse()
        answer = Answer(came.status, came.reason, came.getheaders(), came.read().decode("utf-8", "replace"))
        connection.close()
        if note:
            self.notes.append(note.of(self, method, path, headers, body or "", answer))
        for value in (value for name, value in answer.fields if name.lower() == "set-cookie"):
            name, _, value = value.split(";")[0].partition("=")
            self.cookies[name.strip()] = value.strip()
        return answer


@dataclass
class Note:
    """What a recording is about: its name, what the preset has to make of it, at which endpoint, and for which account.

    `shows` is a part of the body that has to be there; the line with it is kept, and nothing if it is "". `members` are
    pointers to what is kept of a JSON body instead. `hides` is a pattern of the address that it leads to or of the body,
    whose group is secret. `spelling_of` is the account that the application takes the name for.
    """

    name: str
    expect: str
    user: str = None
    door: str = None
    shows: str = None
    spelling_of: str = None
    hides: str = None
    members: tuple = ()

    def of(self, visitor, method, path, headers, body, answer):
        """The name and the text of the file."""
        told = [("expect", self.expect), ("door", self.door), ("user", self.user), ("spelling of", self.spelling_of)]
        lines = [f"# {key}: {value}" for key, value in told if value is not None]
        lines += [f"{method} {path} HTTP/1.1", "Host: app.example"]
        lines += [f"{name}: {masked(name, value)}" for name, value in headers.items() if name != "Host"]
        lines += ["", body, "" if body else None, f"HTTP/1.1 {answer.status} {answer.reason}"]
        kept = [(name, value) for name, value in answer.fields if name.lower() in HEADERS]
        # MediaWiki sets a cookie once more if a second has passed: equal lines are one.
        lines += dict.fromkeys(f"{name.title()}: {masked(name, value)}" for name, value in kept)
        if self.hides:
            visitor.keep(re.search(self.hides, f"{dict(answer.fields).get('Location')}\n{answer.body}")[1])
        lines += ["", self.part_of(evened(answer.body, visitor))]
        text = "\n".join(line for line in lines if line is not None)
        return self.name, evened(text, visitor).rstrip() + "\n"

    def part_of(self, body):
        """What is decisive in it, or its beginning."""
        if self.members:
            return json.dumps(skeleton(json.loads(body), self.members))
        if self.shows == "":
            return ""
        if self.shows is None:
            return "\n".join(line.strip() for line in body[:200].splitlines()).strip()
        lines = [line.strip() for line in body.splitlines() if self.shows in line]
        if not lines:
            raise Wrong(f"{self.name}: {self.shows!r} is not in {body[:2000]}")
        at = max(0, lines[0].find(self.shows) - 60)
        return lines[0][at : at + 240]


def skeleton(value, pointers):
    """Only these members of a JSON object, and of their values only those that hold nothing else."""
    kept = {}
    for pointer in pointers:
        inner, place = value, kept
        *path, last = pointer.strip("/").split("/")
        for step in path:
            inner = inner.get(step) if isinstance(inner, dict) else None
            if not isinstance(inner, dict):
                break
            place = place.setdefault(step, {})
        if isinstance(inner, dict) and last in inner:
            place[last] = {} if isinstance(inner[last], (dict, list)) else inner[last]
    return kept


def masked(name, value):
    """A header without what it keeps secret."""
    if name.lower() == "cookie":
        return "; ".join(f"{pair.split('=')[0]}={TOKEN}" for pair in value.split("; "))
    if name.lower() != "set-cookie":
        return value
    first, *attributes = value.split(";")
    cookie, _, value = first.partition("=")
    gone = unquote_plus(value).strip().strip('"') in ("", "deleted", "delete")
    attributes = [f" expires={PAST if is_past(a) else FUTURE}" if "xpires=" in a else a for a in attributes]
    return ";".join([f"{cookie}={value if gone else TOKEN}", *attributes])


def is_past(attribute):
    """Whether a cookie with that `expires` is deleted by it: applications take 1970, a year ago or a second ago."""
    date = parsedate_to_datetime(attribute.split("=", 1)[1].replace("-", " "))
    return date.replace(tzinfo=date.tzinfo or timezone.utc) < datetime.now(timezone.utc)


def evened(text, visitor):
    """Without addresses, tokens and hashes of this run."""
    host, port = visitor.address
    text = text.replace(f"http://{host}:{port}", SITE).replace(f"{host}:{port}", "app.example")
    text = text.replace(quote_plus(f"http://{host}:{port}"), quote_plus(SITE))
    for secret in sorted(visitor.secrets, key=len, reverse=True):
        shown = visitor.secrets[secret]
        text = text.replace(quote_plus(secret), shown).replace(secret, shown)
    return re.sub(r"(?<![0-9A-Za-z])[0-9a-fA-F]{32,}(?![0-9A-Za-z])", "0123456789abcdef0123456789abcdef", text)
