"""One response names every fault: of the document, of the bindings, and of values that this project cannot have."""

import pytest

from control_api.document_errors import converting_configuration_faults
from control_domain.configurations.documents.bindings import BadBindings
from control_domain.configurations.documents.read_document import (
    BadConfiguration,
    collect_configuration,
    read_configuration,
)
from control_domain.configurations.plan import find_project_faults
from control_domain.configurations.resources import ProjectState
from control_domain.documents.faults import Fault
from pipeline_contracts.errors import InvalidInput

_DOCUMENT = """version: 2
environments:
  a:
    replicas: 0
    branch: ${branch}
    heartbeats:
      nightly: {}
      hourly: {cron: '60 * * * *'}
      bound: {cron: '${cron}'}
      misspelled: {crn: '* * * * *'}
  b: {type: staging, name: B, variables: {X: {keep: true}, Y: '${cron}'}}
"""
_REPLICAS = Fault("environments.a.replicas", 4, "must be 1 to 20")
_CRON = Fault("environments.a.heartbeats.hourly.cron", 8, "'60 * * * *' is no cron expression: Bad minute")
_UNKNOWN = Fault("environments.a.heartbeats.misspelled.crn", 10, "unknown; do you mean cron?")
_UNUSED = "is not used in the document: remove it, or use it in a value; keys cannot contain bindings"


def _digest(value: str) -> str:
    return value


def test_faults_of_the_document_and_of_its_bindings() -> None:
    with pytest.raises(BadConfiguration) as refused:
        read_configuration(_DOCUMENT, {"cron": 1, "other": "x"}, _digest)
    assert refused.value.faults == (_REPLICAS, _CRON, _UNKNOWN)
    assert refused.value.binding_faults == (
        ("cron", "must be a text"),
        ("branch", "is missing: line 5 uses it, at environments.a.branch"),
        ("other", _UNUSED),
    )


def test_the_api_returns_all_faults_at_once() -> None:
    with pytest.raises(InvalidInput) as refused, converting_configuration_faults():
        read_configuration(_DOCUMENT, {"cron": "* * * * *"}, _digest)
    assert [error.field for error in refused.value.errors] == [
        "document.environments.a.replicas",
        "document.environments.a.heartbeats.hourly.cron",
        "document.environments.a.heartbeats.misspelled.crn",
        "bindings.branch",
    ]


def test_project_faults_are_found_in_a_faulty_document() -> None:
    document, faults = collect_configuration(_DOCUMENT, {}, _digest)
    assert document is not None
    state = ProjectState("prj_1", 0, {}, previews=frozenset({"b"}))
    found = [str(fault) for fault in find_project_faults(document, state, faults.document)]
    assert found == [
        # Without faults of "hourly", "bound" and "misspelled", whose values come from a part that is already faulty.
        "line 3: environments.a: needs type, because there is no such environment yet",
        "line 7: environments.a.heartbeats.nightly: needs cron or period, because there is no such heartbeat yet",
        "line 11: environments.b: is the slug of a preview: give the environment another one",
        "line 11: environments.b.variables.X: has no value yet that could be kept: give it a value",
    ]


@pytest.mark.parametrize("text", ["[", "a: b: c", "version: 2\nproject: {name: &a}\n- x"])
def test_invalid_yaml_makes_no_binding_unused(text: str) -> None:
    with pytest.raises(BadConfiguration) as refused:
        read_configuration(text, {"a": "x", "b": 1}, _digest)
    assert refused.value.binding_faults == (("b", "must be a text"),)


def test_a_document_that_is_a_missing_binding() -> None:
    with pytest.raises(BadBindings) as refused:
        read_configuration("${a}", {}, _digest)
    assert refused.value.faults == (("a", "is missing: line 1 uses it"),)
