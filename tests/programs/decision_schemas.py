"""Checks lines of the decision log against the published schema that they name: decision_schemas.py ECS FILE...

OCSF comes with the package ocsf_json_schema, ECS is the JSON of @elastic/ecs. Prints what is wrong, each with its line; the
number of lines otherwise.
"""

import ipaddress
import json
import sys
from datetime import datetime
from functools import cache

import jsonschema
from ocsf_json_schema import OcsfJsonSchemaEmbedded, get_ocsf_schema

with open(sys.argv[1], encoding="utf-8") as file:
    ECS = json.load(file)
FIELDS = ECS["EcsFlat"]
# A namespace of one's own is what the schema asks for: https://www.elastic.co/docs/reference/ecs/ecs-custom-fields-in-ecs
OWN = "tollgate."


@cache
def ocsf_validator(version, uid, profiles):
    schemas = OcsfJsonSchemaEmbedded(get_ocsf_schema(version))
    schema = schemas.get_class_schema(schemas.lookup_class_name_from_uid(uid), list(profiles))
    validator = jsonschema.validators.validator_for(schema)
    validator.check_schema(schema)
    return validator(schema)


def ocsf_mistakes(event):
    metadata = event["metadata"]
    validator = ocsf_validator(metadata["version"], event["class_uid"], tuple(metadata["profiles"]))
    for error in validator.iter_errors(event):
        yield f"{error.json_path}: {error.message[-200:]}"
    # What the schema says in words: https://schema.ocsf.io/1.8.0/classes/base_event
    if event["type_uid"] != event["class_uid"] * 100 + event["activity_id"]:
        yield "type_uid is not class_uid * 100 + activity_id"
    if round(datetime.fromisoformat(event["time_dt"]).timestamp() * 1000) != event["time"]:
        yield "time_dt is another time"
    if "ip" in event.get("src_endpoint", {}):
        ipaddress.ip_address(event["src_endpoint"]["ip"])


def leaves(value, path):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    else:
        yield path, value


def is_whole(value):
    return isinstance(value, int) and not isinstance(value, bool)


TYPES = {
    "keyword": lambda value: isinstance(value, str),
    "long": is_whole,
    "ip": lambda value: bool(ipaddress.ip_address(value)),
    "date": lambda value: bool(datetime.fromisoformat(value)),
}


def ecs_mistakes(event):
    found = dict(leaves(event, ""))
    for field in ("@timestamp", "ecs.version"):
        if field not in found:
            yield f"{field} is missing"
    if found.get("ecs.version") != ECS["EcsVersion"]:
        yield f"the schema has version {ECS['EcsVersion']}"
    for name, value in found.items():
        if name.startswith(OWN):
            if isinstance(value, (dict, list)):
                yield f"{name} is no single value"
            continue
        if name not in FIELDS:
            yield f"{name} is not in the schema"
            continue
        field = FIELDS[name]
        if isinstance(value, list) != ("array" in field["normalize"]):
            yield f"{name} is {'' if isinstance(value, list) else 'not '}a list"
        allowed = {each["name"] for each in field.get("allowed_values", [])}
        for single in value if isinstance(value, list) else [value]:
            if not TYPES[field["type"]](single):
                yield f"{name} is no {field['type']}: {single!r}"
            if allowed and single not in allowed:
                yield f"{name} cannot be {single!r}"
    categories = {each["name"]: each["expected_event_types"] for each in FIELDS["event.category"]["allowed_values"]}
    expected = {kind for category in found["event.category"] for kind in categories[category]}
    if not expected.issuperset(found["event.type"]):
        yield f"event.type has more than {expected}"


lines = 0
wrong = []
for name in sys.argv[2:]:
    with open(name, encoding="utf-8") as file:
        for line in file:
            event = json.loads(line)
            lines += 1
            mistakes = ecs_mistakes(event) if "ecs" in event else ocsf_mistakes(event)
            wrong += [f"{mistake} in {line.strip()}" for mistake in mistakes]
if wrong:
    sys.exit("\n".join(wrong[:10]))
print(lines)
