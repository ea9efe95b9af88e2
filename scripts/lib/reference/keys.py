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


def render(schema):
    restart = set(re.findall(r'\(\s*"([a-z_.]+)",', (ROOT / "src/config/restart_only.rs").read_text().split("#[cfg(test)]")[0]))
    out = ["# Every key\n", HEAD.format("`tollgate schema`"),
           "[config.toml](../../config.toml) shows the same keys as a file. A key can also be set by the environment "
           "(TOLLGATE_STORE__URL) and above that by `--set store.url=...`. NAME is a name that you choose. A changed key is "
           "in force after `tollgate reload`. Some keys are marked: they take a restart.\n"]
    top = {name: node for name, node in schema["properties"].items() if "properties" not in node and "additionalProperties" not in node}
    out += ["## At the top\n", *entries("", top, restart)]
    for name, node in sorted(schema["properties"].items()):
        if name not in top:
            out += table(name, node, restart)
    return "\n".join(out).rstrip() + "\n"


def table(path, node, restart):
    """A heading for the table, and one for each of its keys."""
    below = node.get("additionalProperties")
    title, fields = path, node.get("properties")
    if isinstance(below, dict) and below.get("properties"):
        title, fields = f"{path}.NAME", below["properties"]
    out = [f"## [{title}]\n", prose(node.get("description", "")) + "\n"]
    more = MORE.get(path) or MORE.get(title)
    if more:
        out.append(f"More: [{more.removeprefix('../').split('#')[0]}]({more}).\n")
    if fields is None:
        return out + [f"### {path}.NAME\n", f"{kind(below)}.{shown(below)}\n"]
    nested = {name: field for name, field in fields.items() if is_table(field)}
    out += entries(title, {name: field for name, field in fields.items() if name not in nested}, restart)
    for name, field in nested.items():
        if name == "candidate":
            more = MORE[f"{title}.{name}"]
            out += [f"## [{title}.{name}]\n", prose(field["description"]) + "\n", f"More: [attacks.md]({more}).\n"]
        else:
            out += table(f"{title}.{name}", field, restart)
    return out


def is_table(node):
    return "properties" in node or isinstance(node.get("additionalProperties"), dict)


def entries(path, fields, restart):
    out = []
    for name, node in sorted(fields.items()):
        full = f"{path}.{name}" if path else name
        restarts = " Takes a restart." if full in restart else ""
        out += [f"### {full}\n", f"{kind(node)}.{shown(node)}{restarts}\n"]
        if node.get("description"):
            out.append(prose(node["description"]) + "\n")
        out += parts(node)
    return out


def parts(node):
    """The keys of an inline table, such as those of a certificate."""
    inner = next((option for option in node.get("anyOf", []) if "properties" in option), {})
    if not inner:
        return []
    rows = [f"- `{name}`: {prose(field.get('description', ''))}" for name, field in sorted(inner["properties"].items())]
    return [*rows, ""]


def shown(node):
    if "default" in node:
        return f" Default: `{toml(node['default'])}`." if node["default"] != [] else " Default: none."
    if "examples" in node:
        return f" For example `{toml(node['examples'][0])}`."
    return ""


def kind(node):
    if "anyOf" in node:
        options = node["anyOf"]
        if options[-1].get("type") == "array":
            return f"{kind(options[0])}, or a list"
        return " or ".join([kind(options[0]), *(kind(option).lower() for option in options[1:])])
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
