"""Documents held against their schemas, as an editor does it."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from jsonschema import Draft7Validator

from control_api.schemas.load_schema import load_schema
from control_domain.documents.strict_yaml import Node, read_yaml


def parse(text: str) -> Any:
    """What the YAML is, as plain data. Raises `DocumentFault`."""
    return _plain(read_yaml(text))


def _plain(node: Node) -> Any:
    if isinstance(node.value, Mapping):
        return {key: _plain(member) for key, member in node.value.items()}
    if isinstance(node.value, tuple):
        return [_plain(item) for item in node.value]
    return node.value


@cache
def validator(name: str) -> Draft7Validator:
    """Of the schema of this name."""
    return Draft7Validator(json.loads(load_schema(name)))


def faults(name: str, document: Any) -> list[str]:
    """What the schema of this name finds wrong."""
    return [f"{fault.json_path}: {fault.message}" for fault in validator(name).iter_errors(document)]
