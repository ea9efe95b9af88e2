"""The page of commands, of the help of each."""

from reference.page import HEAD


def render(help_texts):
    out = ["# Every command\n", HEAD.format("`tollgate man` and the help of each command"),
           "Exit codes: 0 ok, 1 failed, 2 wrong arguments, 78 bad configuration ([run](../run.md#exit-codes)). "
           "Data goes to standard output, messages to standard error.\n"]
    for command, help_text in help_texts.items():
        lines = "\n".join(line.rstrip() for line in help_text.strip().splitlines())
        out += [f"## {command}\n", "```text", lines, "```\n"]
    return "\n".join(out).rstrip() + "\n"
