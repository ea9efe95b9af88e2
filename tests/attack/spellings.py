"""Spellings of a name: changes that some database undoes when it compares.

A change is a way, a place in the name and a text, so that a spelling can be written down and made smaller by leaving
changes out. No change sees what another one did, but for those of the whole name, which come last.
"""

import sys
import unicodedata
from collections import defaultdict
from functools import cache
from itertools import chain

INVISIBLE = [
    0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x180B, 0x180E, *range(0x200B, 0x2010), *range(0x202A, 0x202F),
    *range(0x2060, 0x2070), 0x3164, *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0, *range(0xFFF0, 0xFFFE), 0x1D173, 0xE0001,
    *range(0xE0020, 0xE0030), 0xE0100, *range(1, 32), *range(0x7F, 0xA1), 0xFFFD, 0x3000, 0x2003, 0x2028, 0x1F600,
    0xCF3, 0xECE, 0x897,  # marks of Unicode 15 and 16
]
PAIRS = "aa ae ao oe ue ss sz ch ll ij dz nj lj th ts ks ff fi fl st ue ya yu ii uu oo ei ou".split()
WHOLE = {
    "upper": str.upper, "lower": str.lower, "title": str.title, "swap": str.swapcase, "fold": str.casefold,
    "NFC": lambda text: unicodedata.normalize("NFC", text), "NFD": lambda text: unicodedata.normalize("NFD", text),
    "NFKC": lambda text: unicodedata.normalize("NFKC", text), "NFKD": lambda text: unicodedata.normalize("NFKD", text),
    "wide": lambda text: "".join(chr(ord(one) + 0xFEE0) if "!" <= one <= "~" else one for one in text),
    "latin": str,
}
KINDS = "mark marks any any-instead pair ligature gone twice whole end".split() + ["alike"] * 4 + ["invisible"] * 3
SPACES = range(0x20000), range(0x2F800, 0x2FA20), range(0xE0000, 0xE0200)


def letters():
    """Every character that may stand in a name, without surrogates."""
    return (chr(one) for one in chain(*SPACES) if one and not 0xD800 <= one < 0xE000)


@cache
def marks():
    """Those that stand upon others."""
    return [one for one in letters() if unicodedata.combining(one) or unicodedata.category(one) in ("Mn", "Me", "Mc")]


@cache
def alike():
    """Those that hold the same letters, by these letters."""
    found = defaultdict(list)
    for one in letters():
        found[bare(one)].append(one)
    return found


def bare(text):
    """Its letters without marks and case; digits by their value."""
    parts = unicodedata.normalize("NFKD", text.casefold())
    parts = (str(unicodedata.digit(one, "")) or one for one in parts if not unicodedata.combining(one))
    return "".join(parts).casefold()


def draw(random, name):
    """A change of this name."""
    place = random.randrange(len(name))
    kind = random.choice(KINDS)
    if kind == "alike":
        return ["instead", place, random.choice(alike().get(bare(name[place])) or [name[place].swapcase()])]
    if kind == "ligature":
        return ["two", place, random.choice(alike().get(bare(name[place : place + 2])) or PAIRS)]
    if kind == "whole":
        return ["whole", 0, random.choice(list(WHOLE))]
    if kind == "end":
        return ["before", len(name), random.choice([" ", "\t", "\n", "\0", "  x", chr(random.choice(INVISIBLE))])]
    if kind == "gone":
        return ["instead", place, ""]
    texts = {
        "invisible": lambda: chr(random.choice(INVISIBLE)) * random.choice([1, 1, 2, 9, 21]),
        "mark": lambda: random.choice(marks()),
        "marks": lambda: "".join(random.choice(marks()) for _ in range(3)),
        "twice": lambda: name[place],
        "pair": lambda: random.choice(PAIRS),
    }
    if kind in texts and kind != "pair":
        return ["before", random.randrange(len(name) + 1) if kind != "twice" else place, texts[kind]()]
    return ["instead" if kind != "any" else "before", place, texts.get(kind, lambda: anything(random))()]


def anything(random):
    """Any character."""
    ranges = ((1, 0xD800), (0xE000, sys.maxunicode), (0x80, 0x3100))
    return chr(random.randrange(*random.choice(ranges)))


def spelled(name, changes):
    """The bytes of a spelling; `None` where it cannot be written."""
    slots, before = list(name), [""] * (len(name) + 1)
    for way, place, text in changes:
        if way == "before":
            before[place] += text
        elif way in ("instead", "two"):
            slots[place] = text
            slots[place + 1 : place + 2] = [""] if way == "two" else slots[place + 1 : place + 2]
    text = "".join(one for pair in zip(before, [*slots, ""]) for one in pair)
    ways = [text for way, _, text in changes if way == "whole"]
    for way in ways:
        text = WHOLE[way](text)
    try:
        return text.encode("cp1252" if "latin" in ways else "utf-8")
    except UnicodeEncodeError:
        return None
