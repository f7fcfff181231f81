"""The JSON schemas themselves: valid, and described in every place."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from control_api.schemas import load_schema as loading
from control_api.schemas.load_schema import NAMES, load_schema

_FOLDER = Path(loading.__file__).parent
# Editors show this text if a value does not match or a property is not allowed. It is not part of the standard.
_OF_EDITORS = {"patternErrorMessage", "errorMessage"}

each = pytest.mark.parametrize("name", NAMES)


def _schema(name: str) -> Any:
    return json.loads(load_schema(name))


def _schemas(schema: Any, path: str = "#") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every schema in this one, including itself."""
    if not isinstance(schema, dict):
        return
    yield path, schema
    for keyword in ("properties", "definitions", "dependencies"):
        for name, inner in schema.get(keyword, {}).items():
            yield from _schemas(inner, f"{path}/{keyword}/{name}")
    for keyword in ("items", "additionalProperties", "propertyNames", "not"):
        yield from _schemas(schema.get(keyword), f"{path}/{keyword}")
    for keyword in ("allOf", "anyOf"):
        for number, inner in enumerate(schema.get(keyword, [])):
            yield from _schemas(inner, f"{path}/{keyword}/{number}")


def _resolve(root: Any, schema: Any) -> Any:
    while "$ref" in schema:
        # Draft-07 ignores keywords next to `$ref`.
        assert list(schema) == ["$ref"]
        schema = root["definitions"][schema["$ref"].removeprefix("#/definitions/")]
    return schema


@each
def test_schema_is_valid_draft_07_with_its_id(name: str) -> None:
    schema = _schema(name)
    Draft7Validator.check_schema(schema)
    assert schema["$schema"] == Draft7Validator.META_SCHEMA["$schema"]
    assert schema["$id"] == f"urn:pharos:schemas:{name.removesuffix('.json')}"
    assert schema["title"]


@each
def test_schema_uses_only_known_keywords(name: str) -> None:
    known = set(Draft7Validator.META_SCHEMA["properties"]) | _OF_EDITORS
    for path, schema in _schemas(_schema(name)):
        assert set(schema) <= known, path


@each
def test_every_property_has_a_description(name: str) -> None:
    root = _schema(name)
    for path, schema in _schemas(root):
        for property_, member in schema.get("properties", {}).items():
            if member is not False:
                assert _resolve(root, member)["description"].endswith("."), f"{path}/{property_}"
        for keyword in ("items", "additionalProperties", "propertyNames"):
            if isinstance(schema.get(keyword), dict):
                assert _resolve(root, schema[keyword])["description"].endswith("."), f"{path}/{keyword}"


@each
def test_mappings_allow_no_unknown_keys(name: str) -> None:
    for path, schema in _schemas(_schema(name)):
        if "object" in schema.get("type", ()):
            assert "additionalProperties" in schema, path


@each
def test_examples_and_defaults_match_their_schemas(name: str) -> None:
    root = _schema(name)
    shown = 0
    for path, schema in _schemas(root):
        here = {**schema, "definitions": root["definitions"]}
        for value in (*schema.get("examples", ()), *([schema["default"]] if "default" in schema else ())):
            assert not [fault.message for fault in Draft7Validator(here).iter_errors(value)], path
            shown += 1
    assert shown > 10


@each
def test_every_definition_is_used(name: str) -> None:
    root = _schema(name)
    used = {schema["$ref"] for _, schema in _schemas(root) if "$ref" in schema}
    assert used == {f"#/definitions/{definition}" for definition in root["definitions"]}


def test_every_named_schema_exists() -> None:
    assert sorted(path.name for path in _FOLDER.glob("*.json")) == sorted(NAMES)
    with pytest.raises(KeyError):
        load_schema("load_schema.py")
