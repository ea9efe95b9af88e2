"""A request before it is written: what a client wants to say, in parts that edits can change one at a time.

Texts hold bytes as Latin-1, so that every byte can be said. `edits.py` changes drafts, `wire.py` and `http2.py` write
them.
"""

import json
from base64 import b64encode
from dataclasses import dataclass, field
from urllib.parse import quote_from_bytes

BOUNDARY = "part-of-a-form"
KINDS = {
    "form": "application/x-www-form-urlencoded",
    "multipart": f"multipart/form-data; boundary={BOUNDARY}",
    "json": "application/json",
    "xml": "text/xml",
    "text": "text/plain",
}


@dataclass(frozen=True)
class Door:
    """A way in at one application: where its passwords are compared and how they come there."""

    name: str
    path: str
    place: str = "form"  # form, json, xml, basic or query
    user: str = "login"
    password: str = "pw"
    method: str = "POST"
    query: tuple = ()
    fields: tuple = ()  # others that a sign-in holds
    extras: tuple = ()  # parameters that change how the application answers, with their values
    echoes: tuple = ()  # parameters that come back in the answer
    files: tuple = ()  # names that the same program answers to
    xml: str = ""  # a document with {user} and {password}
    named: bool = True  # whether the route says where the account stands
    neutral: bool = False  # whether it gives back what is not refused, and says why
    grammar: tuple = ()  # names of the edits that are tried there; all of `edits.py` if it is empty


@dataclass
class Guess:
    """One name and one password; `token` is how the application's log shows them."""

    user: str
    password: str
    token: str
    right: bool = False


@dataclass
class Draft:
    """All that is said, and how."""

    door: Door
    guesses: dict  # one for each letter, so that every place of credentials has a password of its own
    method: str = "POST"
    path: str = "/"
    query: list = field(default_factory=list)
    fields: list = field(default_factory=list)  # [name, value, name as written or None]
    kind: str = "form"
    content_type: object = True  # True: that of the kind; None: none; a text
    headers: list = field(default_factory=list)
    cookies: list = field(default_factory=list)
    host: object = True
    version: str = "HTTP/1.1"
    target: str = "{path}"
    framing: str = "length"
    separator: str = "&"
    wrap: str = ""  # how the body's bytes are changed at last
    part: str = ""  # headers of each part of a multipart form
    hang_up: str = ""
    lines: list = field(default_factory=list)  # of the head, as they are
    others: tuple = ()  # cookies of others who have signed in
    document: str = ""

    @classmethod
    def of(cls, door, guesses, session):
        """The sign-in as an honest client would send it."""
        cookies, fields = session
        draft = cls(door, guesses, door.method, door.path, list(door.query), cookies=list(cookies))
        guess = guesses["m"]
        if door.place in ("form", "json"):
            draft.kind = door.place
            draft.fields = [[name, value, None] for name, value in (*door.fields, *fields)]
            draft.fields += [[door.user, guess.user, None], [door.password, guess.password, None]]
        elif door.place == "xml":
            draft.kind, draft.document = "xml", door.xml.format(user=guess.user, password=guess.password)
        else:
            draft.kind = "none"
            if door.place == "basic":
                draft.headers.append(["Authorization", basic(guess)])
            else:
                draft.add_to_query(door.user, guess.user)
                draft.add_to_query(door.password, guess.password)
        return draft

    def add_to_query(self, name, value):
        """A parameter of the query."""
        self.query.append(f"{quoted(name)}={quoted(value)}")

    def whole_path(self):
        """Path and query."""
        return self.path + ("?" + "&".join(self.query) if self.query else "")

    def body(self):
        """The body's bytes; none is `None`."""
        writer = {"form": self.form, "multipart": self.multipart, "json": self.json, "xml": self.xml, "text": self.text}
        if self.kind == "none":
            return None
        return writer[self.kind]().encode("latin-1", "replace")

    def type(self):
        """The Content-Type; none is `None`."""
        return KINDS.get(self.kind) if self.content_type is True else self.content_type

    def form(self):
        """Pairs in percent encoding."""
        pairs = (f"{quoted(name) if raw is None else raw}={quoted(value)}" for name, value, raw in self.fields)
        return self.separator.join(pairs)

    def multipart(self):
        """A part for each field."""
        part = 'Content-Disposition: form-data; name="{}"\r\n{}\r\n{}\r\n'
        parts = (part.format(name if raw is None else raw, self.part, value) for name, value, raw in self.fields)
        return "".join(f"--{BOUNDARY}\r\n{part}" for part in parts) + f"--{BOUNDARY}--\r\n"

    def json(self):
        """An object; duplicates stay."""
        members = (
            f"{json.dumps(name) if raw is None else raw}: {json.dumps(value)}" for name, value, raw in self.fields
        )
        return "{" + ", ".join(members) + "}"

    def xml(self):
        """The door's document, or one made of the fields."""
        return self.document or "<r>" + "".join(f"<{n}>{v}</{n}>" for n, v, _ in self.fields) + "</r>"

    def text(self):
        """As forms of `text/plain` are sent."""
        return "".join(f"{name}={value}\r\n" for name, value, _ in self.fields)


def basic(guess):
    """The value of an Authorization header."""
    return "Basic " + b64encode(f"{guess.user}:{guess.password}".encode()).decode()


def quoted(text):
    """Percent encoding as browsers have it, but for brackets, which many clients leave."""
    return quote_from_bytes(text.encode("latin-1", "replace"), safe="[]").replace("%20", "+")
