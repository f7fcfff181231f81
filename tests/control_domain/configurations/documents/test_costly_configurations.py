"""The most expensive documents are read in little memory, or refused before they use more."""

import tracemalloc
from collections.abc import Mapping
from typing import Any

import pytest

from control_domain.configurations.documents.bindings import BadBindings
from control_domain.configurations.documents.read_document import read_configuration
from control_domain.documents.faults import DocumentFault
from control_domain.documents.strict_yaml import MAX_CHARACTERS
from tests.support.costly_configurations import COSTLY
from tests.support.serve_control import VARIABLE_KEYS

# Each takes a fraction of a second.
pytestmark = pytest.mark.timeout(180)

_MOST_BYTES = 20_000_000


def _read(text: str, bindings: Mapping[str, Any]) -> str | None:
    """Return the first fault that is reported."""
    try:
        read_configuration(text, bindings, lambda value: VARIABLE_KEYS.digest(value, "prj_1"))
    except DocumentFault as error:
        return str(error.faults[0])
    except BadBindings as error:
        return ": ".join(filter(None, error.faults[0]))
    return None


@pytest.mark.parametrize(("text", "bindings", "result"), COSTLY.values(), ids=COSTLY.keys())
def test_costly_documents_take_little_memory(
    text: str, bindings: Mapping[str, Any], result: str | None
) -> None:
    assert len(text) <= MAX_CHARACTERS
    tracemalloc.start()
    try:
        assert _read(text, bindings) == result
        assert tracemalloc.get_traced_memory()[1] < _MOST_BYTES
    finally:
        tracemalloc.stop()
