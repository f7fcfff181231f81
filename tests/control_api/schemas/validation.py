"""Validates documents against their schemas, as editors do."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from jsonschema import Draft7Validator

from control_api.schemas.load_schema import load_schema
from control_domain.documents.strict_yaml import Node, read_yaml


def parse(text: str) -> Any:
    """Parse YAML into plain data. Raises `DocumentFault`."""
    return _plain(read_yaml(text))


def _plain(node: Node) -> Any:
    if isinstance(node.value, Mapping):
        return {key: _plain(member) for key, member in node.value.items()}
    if isinstance(node.value, tuple):
        return [_plain(item) for item in node.value]
    return node.value


@cache
def validator(name: str) -> Draft7Validator:
    """Return the validator of a schema."""
    return Draft7Validator(json.loads(load_schema(name)))


def faults(name: str, document: Any) -> list[str]:
    """Return the errors of a document by the schema."""
    return [f"{fault.json_path}: {fault.message}" for fault in validator(name).iter_errors(document)]
