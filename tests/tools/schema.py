#!/usr/bin/env python3
"""Validate JSON documents against the schema files of the tree.

usage: schema.py SCHEMA_DIR DOCUMENT_DIR
Each DOCUMENT_DIR/NAME[@ANYTHING].json holds one document, or several one after the other, of the schema
SCHEMA_DIR/NAME.json. Every schema must have at least one document.
Exit code: 0 all are valid, 1 otherwise; every fault is printed.
"""
import json
import pathlib
import sys

import jsonschema


def documents(text):
    decoder = json.JSONDecoder()
    text = text.strip()
    while text:
        document, end = decoder.raw_decode(text)
        yield document
        text = text[end:].strip()


def main():
    bad = 0
    used = set()
    schemas = {path.stem: json.loads(path.read_text()) for path in pathlib.Path(sys.argv[1]).glob("*.json")}
    for path in sorted(pathlib.Path(sys.argv[2]).glob("*.json")):
        name = path.stem.split("@")[0]
        if name not in schemas:
            print(f"{path.name}: there is no schema {name}.json")
            bad = 1
            continue
        jsonschema.Draft202012Validator.check_schema(schemas[name])
        validator = jsonschema.Draft202012Validator(schemas[name])
        try:
            found = list(documents(path.read_text()))
        except json.JSONDecodeError as error:
            print(f"{path.name}: {error}")
            bad = 1
            continue
        for document in found:
            used.add(name)
            for error in validator.iter_errors(document):
                print(f"{path.name}: {error.json_path}: {error.message}")
                bad = 1
    for name in sorted(schemas.keys() - used):
        print(f"{name}.json: no document was tried")
        bad = 1
    return bad


sys.exit(main())
