"""What all pages of the reference share: where they are, their head, and text as Markdown."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[3]
HEAD = "`scripts/reference` writes this page from the code.\n"


def prose(text):
    """Outside of code, nothing is markup."""
    pieces = text.split("`")
    for at in range(0, len(pieces), 2):
        pieces[at] = re.sub(r"([*<])", r"\\\1", pieces[at])
    return "`".join(pieces)
