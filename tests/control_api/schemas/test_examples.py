"""The published example documents are valid and match their schemas."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from control_api.schemas.load_schema import CONFIGURATION, NAMES, WORKFLOW
from control_domain.configurations.documents.bindings import BadBindings
from control_domain.configurations.documents.read_document import read_configuration
from control_domain.workflows.read_workflow import read_workflow
from tests.control_api.schemas.validation import faults, parse, validator

_DOCS = Path(__file__).parents[3] / "docs"
_FILES = {
    WORKFLOW: _DOCS / "examples" / "workflow.yaml",
    CONFIGURATION: _DOCS / "examples" / "configuration.yaml",
}
_BINDINGS = _DOCS / "examples" / "configuration.bindings.json"

each = pytest.mark.parametrize("name", NAMES)


def _keys(schema: Any, root: Any) -> Iterator[str]:
    """Yield every key that a schema names."""
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        yield from _keys(root["definitions"][schema["$ref"].removeprefix("#/definitions/")], root)
    for key, member in schema.get("properties", {}).items():
        yield key
        yield from _keys(member, root)
    for keyword in ("items", "additionalProperties"):
        yield from _keys(schema.get(keyword), root)
    for inner in (*schema.get("allOf", ()), *schema.get("anyOf", ())):
        yield from _keys(inner, root)


def _used(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
    for member in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _used(member)


@each
def test_example_matches_its_schema_and_uses_every_key(name: str) -> None:
    document, schema = parse(_FILES[name].read_text()), validator(name).schema
    assert not faults(name, document)
    assert set(_keys(schema, schema)) <= set(_used(document))


@each
def test_example_names_its_schema_for_editors(name: str) -> None:
    first, *_ = _FILES[name].read_text().splitlines()
    assert first == f"# yaml-language-server: $schema=http://127.0.0.1:8000/api/schemas/{name}"


def test_workflow_example_is_accepted() -> None:
    assert list(read_workflow(_FILES[WORKFLOW].read_text()).processes) == ["web", "worker", "scheduler"]


def test_configuration_example_is_accepted_with_its_bindings() -> None:
    text, bindings = _FILES[CONFIGURATION].read_text(), json.loads(_BINDINGS.read_text())
    document = read_configuration(text, bindings, lambda value: value)
    assert {one.address[0] for one in document.resources} == {
        "project",
        "environments",
        "sites",
        "notifications",
    }
    assert len(document.deleted) == 5
    (production,) = (one for one in document.resources if one.address == ("environments", "production"))
    assert production.bound == {"variables.DATABASE_URL"}
    with pytest.raises(BadBindings):
        read_configuration(text, {}, lambda value: value)


def test_documents_in_the_documentation_are_accepted() -> None:
    text = (_DOCS / "reference" / "configuration.md").read_text()
    shown = [block for block in re.findall("```yaml\n(.*?)```", text, re.DOTALL) if "version: 2\n" in block]
    assert shown
    for block in shown:
        assert not faults(CONFIGURATION, parse(block))
        bindings = dict.fromkeys(re.findall(r"\$\{([a-z_]+)\}", block), "a value")
        assert read_configuration(block, bindings, lambda value: value).resources
