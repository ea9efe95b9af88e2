"""The grammar: single changes to a request, each with the values that it may have.

An edit is a pair of a name and a value that JSON can hold, so that a case can be written down, done again, and made
smaller by leaving edits out. Edits are applied in the order in which they stand here, whatever order they were chosen
in.
"""

import gzip
import zlib
from urllib.parse import quote, urlsplit

import words
from draft import basic

EDITS = {}


def edit(values):
    """Registers a change with its values: a list, or a function of a random generator and a door."""

    def register(change):
        EDITS[change.__name__] = (values, change, len(EDITS))
        return change

    return register


def draw(random, door):
    """One edit."""
    name = random.choice(door.grammar or NAMES)
    values = EDITS[name][0]
    value = values(random, door) if callable(values) else random.choice(values)
    return name, value


def apply(draft, edits):
    """Changes a draft."""
    for name, value in sorted(edits, key=lambda pair: EDITS[pair[0]][2]):
        EDITS[name][1](draft, value)


@edit(words.METHODS)
def method(draft, value):
    """Another method."""
    draft.method = value


@edit("form multipart json xml text none".split())
def kind(draft, value):
    """Another kind of body, with the same fields."""
    if not draft.fields and value not in ("none", draft.kind):
        guess, door = draft.guesses["m"], draft.door
        draft.fields = [[door.user, guess.user, None], [door.password, guess.password, None]]
    draft.kind = value


@edit(["query", "cookie", "basic", "body", "header"])
def move(draft, value):
    """The credentials stand elsewhere, and not where they belong."""
    strip_credentials(draft)
    put_credentials(draft, value, draft.guesses["m"])


@edit(["query", "cookie", "basic", "body"])
def also(draft, value):
    """Others stand elsewhere as well."""
    letter = {"query": "q", "cookie": "c", "basic": "b", "body": "d"}[value]
    put_credentials(draft, value, draft.guesses[letter])


@edit([[where, what] for where in ("query", "cookie") for what in ("user", "password")])
def split(draft, value):
    """One half of the credentials stands elsewhere."""
    where, what = value
    guess, name = draft.guesses["m"], getattr(draft.door, what)
    draft.fields = [one for one in draft.fields if one[0] != name]
    put_field(draft, where, name, getattr(guess, what))


def strip_credentials(draft):
    """Takes them away from wherever the door has them."""
    names = (draft.door.user, draft.door.password)
    draft.fields = [one for one in draft.fields if one[0] not in names]
    draft.query = [one for one in draft.query if one.partition("=")[0] not in names]
    draft.headers = [one for one in draft.headers if one[0] != "Authorization"]
    if draft.door.place in ("basic", "xml"):
        draft.kind, draft.document = "none", ""


def put_credentials(draft, where, guess):
    """Puts them somewhere."""
    if where == "basic":
        draft.headers.append(["Authorization", basic(guess)])
        return
    for name, value in ((draft.door.user, guess.user), (draft.door.password, guess.password)):
        put_field(draft, where, name, value)
    if where == "body" and draft.kind == "none":
        draft.kind = "form"


def put_field(draft, where, name, value):
    """One field at one place."""
    if where == "query":
        draft.add_to_query(name, value)
    elif where == "cookie":
        draft.cookies.append(f"{name}={quote(value)}")
    elif where == "header":
        draft.headers.append([name, value])
    else:
        draft.fields.append([name, value, None])


@edit(["first", "last", "empty", "user", "array"])
def twice(draft, value):
    """A field of the credentials stands there twice."""
    guess, name = draft.guesses["d"], draft.door.password
    if value == "user":
        draft.fields.insert(0, [draft.door.user, guess.user, None])
    elif value == "first":
        draft.fields.insert(0, [name, guess.password, None])
    else:
        draft.fields.append([name + "[]" * (value == "array"), "" if value == "empty" else guess.password, None])


@edit(
    [
        [dress, which]
        for dress in words.DRESSES + ["upper", "percent", "dot", "unicode"]
        for which in ("user", "password", "both")
    ]
)
def dress(draft, value):
    """A field's name is written in another way."""
    way, which = value
    names = {"user": [draft.door.user], "password": [draft.door.password]}.get(
        which, [draft.door.user, draft.door.password]
    )
    for one in draft.fields:
        if one[0] in names:
            one[2] = dressed(one[0], way, draft.kind)


def dressed(name, way, kind):
    """A name as it is written."""
    if way == "upper":
        text = name.upper()
    elif way == "percent":
        text = "".join(f"%{ord(letter):02x}" for letter in name)
    elif way == "dot":
        text = name.replace("_", ".")
    elif way == "unicode":
        text = "".join(f"\\u{ord(letter):04x}" for letter in name)
    else:
        text = way.format(name).encode().decode("latin-1")
    return f'"{text}"' if kind == "json" else text


@edit([["one", 70_000], ["one", 66_000], ["many", 1_001], ["many", 300], ["one", 9_000], ["one", 300_000]])
def pad(draft, value):
    """Much stands before the credentials."""
    way, count = value
    padding = [["pad", "x" * count, None]] if way == "one" else [[f"p{number}", "1", None] for number in range(count)]
    draft.fields[:0] = padding


@edit([";", "&&", "&amp;", "&;", "%26", "\n"])
def separator(draft, value):
    """Between the fields of a form."""
    draft.separator = value


@edit(words.TYPES)
def content_type(draft, value):
    """The body says that it is something else."""
    draft.content_type = value


@edit([[charset, said] for charset in words.CHARSETS for said in (True, False)])
def charset(draft, value):
    """The body is written in another character set, and says so or not."""
    name, said = value
    draft.wrap = f"charset {name}"
    if said:
        draft.content_type = f"{draft.type() or 'application/x-www-form-urlencoded'}; charset={name}"


@edit(
    [
        ["gzip", "gzip"],
        ["deflate", "deflate"],
        ["gzip", None],
        ["", "identity"],
        ["", "gzip"],
        ["", "utf-8"],
        ["gzip", "x-gzip"],
    ]
)
def encoding(draft, value):
    """The body is compressed, or says that it is."""
    way, said = value
    draft.wrap = way or draft.wrap
    if said:
        draft.headers.append(["Content-Encoding", said])


@edit(words.PARTS)
def part(draft, value):
    """Headers of each part."""
    draft.part = value


@edit(words.FRAMINGS)
def framing(draft, value):
    """How the body's length is said."""
    draft.framing = value


@edit(["HTTP/1.0"])
def version(draft, value):
    """An older client."""
    draft.version = value


@edit(["after", "reset", "half", "early", "read-one"])
def hang_up(draft, value):
    """The client goes before it has its answer."""
    draft.hang_up = value


@edit(
    [None, "other.example", "localhost", "127.0.0.1", "", "a.example:80", "[::1]", "APP.EXAMPLE", "app.example.", "x_y"]
)
def host(draft, value):
    """Another host, or none."""
    draft.host = value


@edit(words.TARGETS)
def target(draft, value):
    """The form of the target."""
    draft.target = value


@edit(words.SUFFIXES)
def suffix(draft, value):
    """The path goes on."""
    draft.path += value


@edit(words.PREFIXES)
def prefix(draft, value):
    """Something stands before the path."""
    draft.path = value + draft.path


@edit(lambda random, door: [random.choice(words.INSERTS), random.randrange(1, len(door.path) + 1)])
def insert(draft, value):
    """Something stands in the path."""
    text, place = value
    draft.path = draft.path[:place] + text + draft.path[place:]


@edit(lambda random, door: random.randrange(1, max(2, len(door.path))))
def percent(draft, value):
    """A letter of the path in percent encoding."""
    if value < len(draft.path):
        draft.path = f"{draft.path[:value]}%{ord(draft.path[value]):02x}{draft.path[value + 1:]}"


@edit(["upper", "title", "last", "long-s", "kelvin", "double"])
def letters(draft, value):
    """The path in other letters."""
    ways = {"upper": str.upper, "title": str.title, "last": lambda path: path[:-1] + path[-1:].swapcase()}
    ways["long-s"] = lambda path: path.replace("s", "%c5%bf", 1)
    ways["kelvin"] = lambda path: path.replace("k", "%e2%84%aa", 1)
    ways["double"] = lambda path: "".join(f"%25{ord(one):02x}" if one == "i" else one for one in path)
    draft.path = ways[value](draft.path)


@edit(["segment", "extension", "last-letter", "all"])
def cut(draft, value):
    """The path ends early."""
    ways = {"segment": lambda path: path.rsplit("/", 1)[0] + "/", "extension": lambda path: path.rsplit(".", 1)[0]}
    ways |= {"last-letter": lambda path: path[:-1], "all": lambda _: "/"}
    draft.path = ways[value](draft.path) or "/"


@edit(lambda random, door: random.choice(door.files or ("/",)))
def file(draft, value):
    """Another name of the same program."""
    draft.path = value


@edit(words.QUERIES)
def query(draft, value):
    """Another parameter."""
    draft.query.append(value)


@edit(lambda random, door: [random.choice(door.extras or (("a", "b"),)), random.choice(["query", "body", "cookie"])])
def extra(draft, value):
    """A parameter that this application knows."""
    (name, text), where = value
    if where == "query":
        draft.query.append(f"{name}={text}")
    else:
        put_field(draft, where, name, text)


@edit(
    lambda random, door: [
        random.choice(door.echoes or ("next",)),
        random.choice(words.LONG),
        random.choice(["n", "\xe9", "%", "<"]),
    ]
)
def echo(draft, value):
    """Something long comes back in the answer, before the words that say what the answer is."""
    name, count, letter = value
    draft.fields.insert(0, [name, letter * count, None])


@edit(lambda random, door: [random.choice(door.echoes or ("next",)), random.choice(words.ODD)])
def odd(draft, value):
    """Something comes back that the answer cannot hold, or that makes it look like another."""
    name, text = value
    draft.fields.insert(0, [name, text, None])


@edit([[name, value] for name in words.OVERRIDES for value in ("POST", "post", "GET", "PUT", "OPTIONS", "POST, GET")])
def override(draft, value):
    """A header that says another method."""
    draft.headers.append(list(value))


@edit([[*header, way] for header in words.SCRIPTS for way in ("before", "instead")])
def elsewhere(draft, value):
    """A header that says another path."""
    name, text, way = value
    draft.headers.append([name, text or draft.path])
    if way == "before":
        draft.path = (text or "/foo") + draft.path
    else:
        draft.path = "/"


@edit(["app.example", "x"])
def absolute_path(draft, value):
    """The path is a URI of its own inside the target."""
    draft.path = f"/http://{value}{urlsplit(draft.path).path}"


@edit(words.LINES)
def line(draft, value):
    """Credentials in a line of the head that is written in another way."""
    draft.lines.append(value.format(name="Authorization", value=basic(draft.guesses["b"])))


@edit(words.DOCUMENTS)
def xml(draft, value):
    """The document is written in another way."""
    draft.document = draft.document.replace(*value).encode().decode("latin-1")


@edit(words.FORWARDED)
def forwarded(draft, value):
    """Who the client says that it is."""
    draft.headers.append(list(value))


@edit(words.HEADERS)
def header(draft, value):
    """Another header."""
    draft.headers.append(list(value))


@edit([[["Origin", "http://other.example"], ["Access-Control-Request-Method", "POST"]]])
def preflight(draft, value):
    """It says that it is a pre-flight."""
    draft.headers += [list(one) for one in value]
    draft.method = "OPTIONS"


@edit(words.SCHEMES + ["twice", "before", "lower-name"])
def scheme(draft, value):
    """The Authorization header is written in another way."""
    for one in [one for one in draft.headers if one[0].lower() == "authorization"][:1]:
        token = one[1].removeprefix("Basic ")
        if value == "twice":
            draft.headers.append(["Authorization", basic(draft.guesses["b"])])
        elif value == "before":
            draft.headers.insert(0, ["Authorization", "Bearer x"])
        elif value == "lower-name":
            one[0] = "AUTHORIZATION"
        else:
            one[1] = value.format(token)


@edit(words.COOKIES)
def cookie(draft, value):
    """Another cookie."""
    draft.cookies.append(value)


@edit(["margaret"])
def known(draft, value):
    """An account that there is."""
    for one in draft.fields:
        one[1] = value if one[0] == draft.door.user else one[1]


def wrapped(body, way):
    """The body's bytes at last."""
    if way == "gzip":
        return gzip.compress(body, 1)
    if way == "deflate":
        return zlib.compress(body, 1)
    if way.startswith("charset "):
        charset = way.removeprefix("charset ")
        if charset in ("cp037", "cp500"):  # the separators stay: they are looked for before anything is decoded
            letters = (
                bytes([one]) if one in b"&=%" else bytes([one]).decode("latin-1").encode(charset) for one in body
            )
            return b"".join(letters)
        return body.decode("latin-1").encode(charset, "replace")
    return body


NAMES = list(EDITS)
# Drawn more often: what decides whether anything is counted at all, and what it may look like.
NAMES += (
    ["method"] * 4
    + ["move", "also", "split", "kind", "content_type"] * 2
    + ["suffix", "prefix", "insert", "extra", "header"] * 3
)
NAMES += ["echo", "dress", "override", "elsewhere", "framing"]
