"""Validates TOML files against a JSON Schema: validate.py SCHEMA FILE...; prints a JSON object of those refused."""

import json
import sys
import tomllib

import jsonschema

with open(sys.argv[1], encoding="utf-8") as text:
    schema = json.load(text)
jsonschema.Draft7Validator.check_schema(schema)
validator = jsonschema.Draft7Validator(schema)
refused = {}
for name in sys.argv[2:]:
    with open(name, "rb") as file:
        value = tomllib.load(file)
    error = next(validator.iter_errors(value), None)
    if error is not None:
        refused[name] = f"{error.json_path}: {error.message[:200]}"
print(json.dumps(refused))
