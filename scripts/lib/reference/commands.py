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

    def is_group(self):
        """Whether it does nothing without one of its commands."""
        return any(usage.endswith(" <COMMAND>") for usage in self.usage)


def render(help_texts):
    helps = {command: parse(text) for command, text in help_texts.items()}
    helps = {command: parsed for command, parsed in helps.items() if not parsed.is_group()}
    counts = collections.Counter(item for parsed in helps.values() for item in parsed.items)
    shared = [item for item, count in counts.items() if count >= SHARED]
    usual = [item for item in shared if counts[item] > len(helps) / 2]
    out = ["# Every command\n", HEAD,
           "[Exit codes](../run.md#exit-codes) are the same for all. Data goes to standard output, messages to standard error. "
           "`-h` prints the help of any command.\n",
           "## Shared arguments and options\n", usual_options(helps, usual),
           *block(columns(sorted(shared, key=lambda item: (item.flag, item.name))))]
    for command, parsed in helps.items():
        out += section(command, parsed, shared, usual)
    return "\n".join(out).rstrip() + "\n"


def usual_options(helps, usual):
    """The options that nearly all commands take, and the commands that do not."""
    without = [command.removeprefix("tollgate ") for command, parsed in helps.items() if usual[0] not in parsed.items]
    for command, parsed in helps.items():
        if len({item in parsed.items for item in usual}) != 1:
            raise SystemExit(f"scripts/lib/reference/commands.py: {command} takes only some of the usual options")
    options = " and ".join(sorted(f"`{item.flag}`" for item in usual))
    *most, last = (f"`{command}`" for command in without)
    return f"All commands except {', '.join(most)} and {last} take {options}. Each names the others that it takes.\n"


def section(command, parsed, shared, usual):
    own = [item for item in parsed.items if item not in shared]
    # The heading and the options tell as much.
    usage = [] if parsed.usage == [command] else parsed.usage
    lines = [*usage, *([""] if usage and own else []), *columns(own)]
    out = [f"## {command}\n", prose(f"{parsed.purpose}.") + "\n", *(block(lines) if lines else [])]
    if parsed.remark:
        out.append(prose(parsed.remark) + "\n")
    options = [item for item in shared if item.flag]
    if all(item in parsed.items for item in options):
        out.append("Shared: all options.\n")
    elif flags := [f"`{item.flag}`" for item in parsed.items if item in options and item not in usual]:
        out.append(f"Shared: {', '.join(flags)}.\n")
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
            # The options follow.
            parsed.usage = [line.strip().replace(" [OPTIONS]", "") for line in [title.removeprefix("Usage: "), *lines]]
        elif title in ("Arguments:", "Options:"):
            parsed.items += [item for item in items_of(lines) if item.flag != "--help"]
        elif title != "Commands:":
            parsed.remark = " ".join([title, *lines])
    return parsed


def items_of(lines):
    """A name, two blanks and a meaning, which is on the next line where the name is long."""
    joined = re.sub(r"\n {10,}(?=\S)", "  ", "\n".join(lines))
    # Each command names what it prints; it is one option all the same.
    joined = re.sub(r"(--format <FORMAT> +)How the \w+ is printed(?= \[)", r"\1How the answer is printed", joined).splitlines()
    pairs = (re.split(r" {2,}", line.strip(), maxsplit=1) for line in joined)
    return [Item(name, *meaning) if meaning else Item(name, "") for name, *meaning in pairs]
