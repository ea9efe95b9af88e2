"""The grammar of cookies: changes to how a request names its session, beside those of `edits.py`.

The first cookie of a draft is its session's. Each change is one that some server undoes when it reads the cookie, or
that another one in front of it could take for another session.
"""

from string import ascii_lowercase, ascii_uppercase, digits

from edits import edit, put_field

BYTES = ["%{:02x}", "%{:02X}", "%25{:02x}", "%2525{:02x}", "\\{:03o}", "%5c{:03o}", "\\{:c}", "%u{:04x}", "&#{};"]
AROUND = [
    '"{}"', "%22{}%22", '\\"{}\\"', '"{}', '{}"', "'{}'", '""{}""', '"{}"x', 'x"{}"', '"{}";x', '" {} "', " {}", "{} ",
    "\t{}", "{}\t", "+{}", "{}+", "%20{}", "{}%20", "{}%0a", "{}%0d%0a", "{}%00", "{}%00x", "%00{}", "{},", "{},x",
    "{}, x", "x,{}", ",{}", "{};", "{}&x", "{}&a=b", "{}#x", "{}?x", "{}|x", "{}:x", "{}/x", "/{}", "{}.x", ".{}",
    "{}.", "{}=", "{}==", "={}", "{}--x", "{}%3d", "{}!route1", "{}.node1", "s:{}", "s%3a{}", 'j:"{}"', "{}\xa0",
    "\xa0{}", "{}\x85", "{}\xe9", "\xef\xbb\xbf{}", "{}%ff", "{}%c3%a9", "{}%", "{}%4", "{}\\", "{}[]", "({})", "<{}>",
    "{}\x7f",
]
JUNK = [
    "!", "*", "~", " ", "\t", "=", "==", ",", "$", "(", '"', "\\", "'", "|", "@", "%", "&", "+", "%20", "%0a", "%0d",
    "%00", "%21", "%ff", "%c2%ad", "\xff", "\xc2\xad", "%2b", "-", "_", ".",
]
NAMES_OF_IT = [
    "upper", "lower", "swap", "first", "all", "{}[]", "{}[0]", "{}[", " {}", "{} ", "\t{}", "+{}", "%20{}", "{}%20",
    '"{}"', "{}.", ".{}", "${}", "__Host-{}", "__Secure-{}", "{}%00", "{}\xa0", "\xef\xbb\xbf{}", "{}%5b%5d", "[{}",
    "under", "dots", "dashes",
]
BESIDE = [
    "{name}=", "{name}=x", "{name}", "{name}=deleted", "{name}=0123456789abcdef0123456789abcdef", "{name}={other}",
    "=x", "=", "$Version=1", '$Version="1"', "$Path=/", "$Domain=app.example", 'a="', 'a="x', 'a="x; b', "a=b,c", "a='",
    "{name}[x]=y", "{name}={value}", "{name}={value}x", "x{name}={value}", "lang=en-US", "route=balancer-0123456789",
    "a=%", "a=\xff", "{name}=%00", "{other}={value}", "a=\x01",
]
JOINS = [";", ",", ", ", " ; ", ";;", "; ;", "&", "\t;", ";\t", ";  ", " , ", "lines", "backwards", "COOKIE", "Cookie2"]
PLACES = ["query", "body", "path", "segment", "front", "twice"]
LEFT = ["stays", "goes", "stale", "other"]
PARAMETERS = [
    "{}", "jsessionid", "JSESSIONID", "PHPSESSID", "sid", "SID", "session", "session_id", "_session_id", "connect.sid",
]


def session(draft):
    """The name and the value of the session's cookie."""
    name, _, value = (draft.cookies or ["none="])[0].partition("=")
    return name, value


def rename(draft, name, value):
    """Writes it in another way."""
    draft.cookies[:1] = [f"{name}={value}"]


@edit(lambda random, _: [random.choice([*BYTES, "upper", "lower"]), random.choice([random.randrange(40), -1, "all"])])
def spell(draft, value):
    """One letter of the value in another spelling, or all of them."""
    (way, place), (name, text) = value, session(draft)
    changed = range(len(text)) if place == "all" else [place % max(1, len(text))]
    letters = [spelled(one, way) if at in changed else one for at, one in enumerate(text)]
    rename(draft, name, "".join(letters))


def spelled(letter, way):
    """One letter."""
    return getattr(letter, way)() if way in ("upper", "lower") else way.format(ord(letter))


@edit(lambda random, _: [random.choice(JUNK), random.choice([0, -1, random.randrange(400)])])
def junk(draft, value):
    """Something stands in the value that a lenient reader leaves out."""
    (what, place), (name, text) = value, session(draft)
    place = len(text) + 1 + place if place < 0 else place % max(1, len(text))
    rename(draft, name, text[:place] + what + text[place:])


@edit(lambda random, _: [random.randrange(4), random.randrange(1, 16)])
def last_letter(draft, value):
    """The last letter of a part in base 64 has bits that no byte needs."""
    (part, step), (name, text) = value, session(draft)
    letters = ascii_uppercase + ascii_lowercase + digits + ("+/" if "+" in text or "/" in text else "-_")
    ends = [at for at, one in enumerate(text) if one in letters[:62] and not text[at + 1 : at + 2].isalnum()]
    if ends:
        at = ends[part % len(ends)]
        letter = letters[letters.index(text[at]) & 0x30 | (letters.index(text[at]) + step) & 0x0F]
        rename(draft, name, text[:at] + letter + text[at + 1 :])


@edit(AROUND)
def around(draft, value):
    """Something stands around the value."""
    name, text = session(draft)
    rename(draft, name, value.replace("{}", text))


@edit(["half", "sixteen", "signature", "padding"])
def shorter(draft, value):
    """The value ends early."""
    name, text = session(draft)
    ends = {"half": text[: len(text) // 2], "sixteen": text[:16], "padding": text.rstrip("=")}
    rename(draft, name, ends.get(value, text.rpartition(".")[0]))


@edit(NAMES_OF_IT)
def name(draft, value):
    """The cookie's name is written in another way."""
    old, text = session(draft)
    ways = {"upper": old.upper(), "lower": old.lower(), "swap": old.swapcase(), "under": old.replace(".", "_")}
    ways |= {"first": f"%{ord(old[0]):02x}{old[1:]}", "all": "".join(f"%{ord(one):02x}" for one in old)}
    ways |= {"dots": old.replace("_", "."), "dashes": old.replace("_", "-")}
    rename(draft, ways.get(value, value.replace("{}", old)), text)


@edit(lambda random, _: [random.choice(PLACES), random.choice(PARAMETERS), random.choice(LEFT)])
def elsewhere_named(draft, value):
    """The session stands elsewhere: in the query, the body, the path, or in another cookie."""
    (place, parameter, cookie), (old, text) = value, session(draft)
    parameter = parameter.replace("{}", old)
    ends = {"path": f"{draft.path};{parameter}={text}", "front": f"/;{parameter}={text}{draft.path}"}
    ends["segment"] = f"{draft.path};a=b;{parameter}={text};c"
    draft.path = ends.get(place, draft.path)
    if place in ("query", "body"):
        put_field(draft, place, parameter, text)
    elif place == "twice":
        draft.cookies.append(f"{parameter}={text}")
    instead = {"goes": [], "stale": [f"{old}=0123456789abcdef0123456789abcdef"], "other": list(draft.others[-1:])}
    draft.cookies[:1] = instead.get(cookie, draft.cookies[:1])


@edit([[where, what] for where in ("before", "behind") for what in BESIDE])
def beside(draft, value):
    """Another cookie before or behind it."""
    (where, what), (old, text) = value, session(draft)
    at = 0 if where == "before" else 1
    other = (draft.others or ("none=none",))[-1].partition("=")[2]
    new = what.replace("{name}", old).replace("{value}", text).replace("{other}", other)
    draft.cookies[at:at] = [new]


@edit(JOINS)
def join(draft, value):
    """The cookies are joined in another way, or come in lines of their own."""
    cookies, draft.cookies = draft.cookies, []
    if value in ("lines", "backwards"):
        draft.headers += [["Cookie", one] for one in (cookies if value == "lines" else cookies[::-1])]
    elif value in ("COOKIE", "Cookie2"):
        draft.headers.append([value, "; ".join(cookies)])
    else:
        draft.headers.append(["Cookie", value.join(cookies)])


NAMES = [one.__name__ for one in (spell, junk, last_letter, around, shorter, name, elsewhere_named, beside, join)]
NAMES += ["spell", "beside", "elsewhere_named"]
