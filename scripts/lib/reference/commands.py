"""The page of commands, of the help of each. What many commands have in common is there once."""

import collections
import dataclasses
import re

from reference.page import HEAD, prose

# A line that this number of commands have is in the list of shared ones.
SHARED = 4


@dataclasses.dataclass(frozen=True)
class Item:
    """An argument or an option, as the help shows it."""
    name: str
    meaning: str

    @property
    def flag(self):
        """The long name of an option, empty for an argument."""
        return next(iter(re.findall(r"--[a-z-]+", self.name)), "")


@dataclasses.dataclass
class Help:
    """The help of one command, without its commands: each of them is on the page, too."""
    purpose: str
    usage: list[str]
    items: list[Item]
    remark: str


def render(help_texts):
    helps = {command: parse(text) for command, text in help_texts.items()}
    counts = collections.Counter(item for parsed in helps.values() for item in parsed.items)
    shared = [item for item, count in counts.items() if count >= SHARED]
    out = ["# Every command\n", HEAD.format("`tollgate man` and the help of each command"),
           "Exit codes: 0 ok, 1 failed, 2 wrong arguments, 78 bad configuration ([run](../run.md#exit-codes)). "
           "Data goes to standard output, messages to standard error. `-h` prints the help of any command.\n",
           "## Shared arguments and options\n", "Commands name the shared options that they take.\n",
           *block(columns(sorted(shared, key=lambda item: (item.flag, item.name))))]
    for command, parsed in helps.items():
        out += section(command, parsed, shared)
    return "\n".join(out).rstrip() + "\n"


def section(command, parsed, shared):
    own = [item for item in parsed.items if item not in shared]
    lines = [*parsed.usage, *([""] if own else []), *columns(own)]
    out = [f"## {command}\n", prose(f"{parsed.purpose}.") + "\n", *block(lines)]
    if parsed.remark:
        out.append(prose(parsed.remark) + "\n")
    flags = [f"`{item.flag}`" for item in parsed.items if item in shared and item.flag]
    if flags:
        every = len(flags) == sum(bool(item.flag) for item in shared)
        out.append(f"Shared: {'all options' if every else ', '.join(flags)}.\n")
    return out


def block(lines):
    return ["```text", *lines, "```\n"]


def columns(items):
    # A usage as long as a line would push all others away.
    width = max((len(item.name) for item in items if len(item.name) <= 40), default=0)
    return [f"{item.name:{width}}  {item.meaning}".rstrip() for item in items]


def parse(text):
    """Clap writes a purpose, the usage, then blocks with a title, then a remark."""
    blocks = [lines.splitlines() for lines in text.strip().split("\n\n")]
    parsed = Help(purpose=" ".join(blocks[0]), usage=[], items=[], remark="")
    for title, *lines in blocks[1:]:
        if title.startswith("Usage: "):
            parsed.usage = [line.strip() for line in [title.removeprefix("Usage: "), *lines]]
        elif title in ("Arguments:", "Options:"):
            parsed.items += [item for item in items_of(lines) if item.flag != "--help"]
        elif title != "Commands:":
            parsed.remark = " ".join([title, *lines])
    return parsed


def items_of(lines):
    """A name, two blanks and a meaning, which is on the next line where the name is long."""
    joined = re.sub(r"\n {10,}(?=\S)", "  ", "\n".join(lines)).splitlines()
    pairs = (re.split(r" {2,}", line.strip(), maxsplit=1) for line in joined)
    return [Item(name, *meaning) if meaning else Item(name, "") for name, *meaning in pairs]
