"""The page of keys, of the schema of the configuration file."""

import json
import re

from reference.page import HEAD, ROOT, prose

# Where more is said of the keys of a table.
MORE = {
    "": "../run.md",
    "admin": "../admin-api.md",
    "client": "../clients.md",
    "device": "../devices.md#known-devices",
    "limit": "../getting-started.md#routes-and-limits",
    "limit.NAME.candidate": "../attacks.md#candidates",
    "limit.NAME.escalate": "../signin.md#waits-that-grow-and-an-end",
    "log": "../logs-and-metrics.md#access-log",
    "otel": "../logs-and-metrics.md#opentelemetry",
    "proxy": "../internals/bounds.md",
    "refuse": "../answers.md",
    "route": "../matching.md",
    "route.NAME.attack": "../attacks.md#attack-mode",
    "store": "../stores.md",
    "tls": "../tls.md",
}

# The greatest number of words that is listed.
LONGEST_LIST = 12


def render(schema):
    out = ["# Every key\n", HEAD,
           "[config.toml](../../config.toml) shows the same keys as a file. A key can also be set by the environment "
           "(TOLLGATE_STORE__URL) and above that by `--set store.url=...`. NAME is a name that you choose. A changed key is "
           "in force after `tollgate reload`, one that is marked *restart* after a restart.\n"]
    return "\n".join(out + Page(schema["properties"]).lines()).rstrip() + "\n"


class Page:
    """Says each thing once: where keys share a text, the second links to the first."""

    def __init__(self, tables):
        self.tables = tables
        source = (ROOT / "src/config/restart_only.rs").read_text().split("#[cfg(test)]")[0]
        self.restart = set(re.findall(r'\(\s*"([a-z_.]+)",', source))
        # Each text with the key that has it; those of tables with none, because their keys follow.
        self.said = {}

    def lines(self):
        top = {name: node for name, node in self.tables.items() if not is_table(node)}
        out = ["## At the top\n", *self.entries("", top)]
        for name, node in sorted(self.tables.items()):
            if name not in top:
                out += self.table(name, node)
        return out

    def table(self, path, node):
        """A heading for the table, and one for each of its keys."""
        title, fields = path, node.get("properties")
        below = node.get("additionalProperties")
        if isinstance(below, dict) and below.get("properties"):
            title, fields = f"{path}.NAME", below["properties"]
        text = prose(node.get("description", ""))
        self.said[text] = None
        out = [f"## [{title}]\n", text + "\n"]
        more = MORE.get(path) or MORE.get(title)
        if more:
            out.append(f"More: [{more.removeprefix('../').split('#')[0]}]({more}).\n")
        if path == "limit.NAME.candidate":
            # Its text says which keys of the limit it has.
            return out
        if path == "template":
            return out + self.entries(title, {"hosts": fields["hosts"]})
        if fields is None:
            return out + [f"### {path}.NAME\n", f"{kind(below)}.{shown(below)}\n"]
        same = path.split(".")[-1]
        if same != path and fields.keys() <= self.tables.get(same, {}).get("properties", {}).keys():
            return out + [f"The keys {code(fields)} are those of [{same}](#{same}).\n"]
        nested = {name: field for name, field in fields.items() if is_table(field)}
        out += self.entries(title, {name: field for name, field in fields.items() if name not in nested})
        for name, field in nested.items():
            out += self.table(f"{title}.{name}", field)
        return out

    def entries(self, path, fields):
        out = []
        for name, node in sorted(fields.items()):
            full = f"{path}.{name}" if path else name
            restarts = " *Restart.*" if full in self.restart else ""
            out += [f"### {full}\n", f"{kind(node)}.{shown(node)}{restarts}\n", *self.meaning(full, node)]
        return out

    def meaning(self, full, node):
        """What the key does, and the keys of an inline table, such as those of a certificate."""
        text = prose(node.get("description", ""))
        if repeats(text, kind(node)):
            text = ""
        rows = [f"- `{name}`: {prose(field.get('description', ''))}" for name, field in sorted(inner(node).items())]
        known = [self.said[said] for said in [text, *rows] if self.said.get(said)]
        tells_all = all(re.search(rf"\b{name}\b", text) for name in inner(node))
        new_rows = [] if tells_all else [row for row in rows if row not in self.said]
        out = []
        if text and text not in self.said:
            out.append(text + "\n")
        if known:
            out.append(f"See [{known[0]}](#{anchor(known[0])}).\n")
        for new in filter(None, [text, *rows]):
            self.said.setdefault(new, full)
        return [*out, *new_rows, *([""] if new_rows else [])]


def is_table(node):
    return "properties" in node or isinstance(node.get("additionalProperties"), dict)


def inner(node):
    return next((option["properties"] for option in node.get("anyOf", []) if "properties" in option), {})


def repeats(text, kind_of):
    """Whether a text has only the values or the bounds that the kind has, too."""
    plain = [re.sub(r'["`.]', "", words).replace(" or ", ", ") for words in (text, kind_of)]
    return plain[0] in plain[1]


def code(names):
    return ", ".join(f"`{name}`" for name in names)


def anchor(key):
    return key.replace(".", "").lower()


def shown(node):
    if "default" in node:
        return f" Default: `{toml(node['default'])}`." if node["default"] != [] else " Default: none."
    if "examples" in node and not is_plain(node):
        return f" For example `{toml(node['examples'][0])}`."
    return ""


def is_plain(node):
    """Whether an example shows no more than the kind."""
    return "enum" in node or node.get("type") in ("boolean", "integer", "number")


def kind(node):
    if "anyOf" in node:
        options = node["anyOf"]
        if options[-1].get("type") == "array":
            return f"{kind(options[0])}, or a list"
        return " or ".join([kind(options[0]), *(kind(option).lower() for option in options[1:])])
    if len(node.get("enum", [])) > LONGEST_LIST:
        # The text tells where they are listed.
        return "Word"
    if "enum" in node:
        return "One of " + ", ".join(f"`{word}`" for word in node["enum"])
    if node.get("type") == "boolean":
        return "`true` or `false`"
    if node.get("type") in ("integer", "number"):
        word = "Whole number" if node["type"] == "integer" else "Number"
        return f"{word}, {node['minimum']:,} to {node['maximum']:,}" if "maximum" in node else word
    if "properties" in node:
        return "Table"
    pattern = node.get("pattern", "")
    if "burst" in pattern:
        return "Rate, or `\"off\"`" if "off|" in pattern else "Rate"
    if "KiB" in pattern:
        return "Size"
    if pattern.endswith("ms)?$"):
        return "Duration"
    return "Text"


def toml(value):
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:_}" if value >= 10_000 else str(value)
    if isinstance(value, list):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)
