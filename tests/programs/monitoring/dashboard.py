"""Reads a dashboard with the classes that Grafana generates from its own schema, and writes it again.

A key that Grafana does not know would be lost on the way, and a value of a wrong type is an error.
Prints the type of each panel and of its queries.
"""

import json
import sys

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

register_default_plugins()
with open(sys.argv[1], encoding="utf-8") as file:
    written = json.load(file)
dashboard = Dashboard.from_json(written)
read = json.loads(JSONEncoder().encode(dashboard))


def differences(one, other, where):
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            yield from differences(one.get(key), other.get(key), f"{where}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for at, (left, right) in enumerate(zip(one, other)):
            yield from differences(left, right, f"{where}[{at}]")
    elif one != other:
        yield f"{where}: {one!r} is read as {other!r}"


lost = list(differences(written, read, "dashboard"))
if lost:
    sys.exit("\n".join(lost))
for panel in dashboard.panels:
    queries = {type(target).__module__ for target in getattr(panel, "targets", None) or []}
    print(panel.type_val, *queries)
