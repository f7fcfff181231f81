"""The schema of workflow documents accepts and refuses the same documents as the reader."""

import copy
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_api.schemas.load_schema import WORKFLOW
from control_domain.documents.faults import DocumentFault
from control_domain.workflows.read_workflow import read_workflow
from pipeline_contracts.git_refs import REF
from tests.control_api.schemas.document_changes import change_somewhere
from tests.control_api.schemas.validation import faults, parse, validator

_characters = st.characters(
    codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"], exclude_characters="\ufeff\ufffe\uffff"
)
_lines = st.text(_characters, min_size=1, max_size=20)
_steps = st.fixed_dictionaries(
    {},
    optional={
        "steps": st.lists(
            st.text(_characters | st.sampled_from("\n\t"), min_size=1, max_size=20), max_size=3
        ),
        "timeout_seconds": st.integers(1, 7200),
    },
)
_slugs = st.from_regex("[a-z0-9]{1,9}(-[a-z][a-z0-9]{0,9}){1,2}", fullmatch=True)
_branches = st.from_regex("[a-zø0-9]{1,9}([/.][a-z0-9]{1,9}){0,2}", fullmatch=True).filter(REF.fullmatch)
_web = st.fixed_dictionaries(
    {"command": _lines},
    optional={
        "health": st.fixed_dictionaries(
            {"path": st.from_regex('/[!-"$-~]{0,9}', fullmatch=True)},
            optional={"timeout_seconds": st.integers(1, 3600)},
        )
    },
)
_processes = st.dictionaries(
    st.from_regex("[a-z][a-z0-9-]{0,29}", fullmatch=True).filter(lambda name: name != "web"),
    st.fixed_dictionaries({"command": _lines}, optional={"replicas": st.integers(1, 20)}),
    max_size=3,
)
_triggers = st.fixed_dictionaries(
    {},
    optional={
        "push": st.dictionaries(_branches, _slugs, max_size=3),
        "pull_requests": st.fixed_dictionaries(
            {"from": _slugs}, optional={"close": st.sampled_from(["destroy", "keep"])}
        ),
        "skip": _lines,
    },
)
DOCUMENTS = st.fixed_dictionaries(
    {
        "version": st.just(1),
        "processes": st.builds(lambda web, others: {"web": web, **others}, _web, _processes),
    },
    optional={"build": _steps, "release": _steps, "triggers": _triggers, "retain": st.integers(1, 50)},
)

# Without the values on which schema and reader cannot agree: see below.
_VALUES = [
    None, True, False, 0, 1, 2, 20, 21, 50, 51, 3600, 3601, 7200, 7201, -1, 1.5, "", "x", "X", "a b", "a-b", "a--b",
    "-a", "a_b", "7", "/", "/a", "/a b", "/a#b", "main", "x" * 60, "x" * 61, "x" * 100, "x" * 101, "x" * 4096,
    "x" * 4097, "/" * 2000, "/" * 2001, "a\nb", "a\tb", "a\0b", "keep", "destroy", "remove", "a..b", "a.lock", "@", [],
    ["x"], [[]], ["x"] * 50, ["x"] * 51,
    {}, {"a": "b"}, {"command": "x"}, {"path": "/"}, {"from": "a"}, {"-x": "a"}, {"a b": "a"},
    {"1": {"command": "x"}}, {"a": {"command": "x"}}, {"web": {"command": "x", "replicas": 1}},
    {"a": {"command": "x", "health": {"path": "/"}}}, {f"p{n}": {"command": "x"} for n in range(20)},
    {f"p{n}": {"command": "x"} for n in range(21)},
]  # fmt: skip


def _is_read(document: Any) -> bool:
    try:
        read_workflow(json.dumps(document, ensure_ascii=False))
    except DocumentFault:
        return False
    return True


@given(DOCUMENTS)
def test_schema_and_reader_accept_valid_documents(document: Any) -> None:
    read_workflow(json.dumps(document, ensure_ascii=False))
    assert not faults(WORKFLOW, document)


@given(DOCUMENTS, st.data())
def test_schema_and_reader_agree_on_mutated_documents(document: Any, data: st.DataObject) -> None:
    changed = change_somewhere(copy.deepcopy(document), data, _VALUES)
    assert _is_read(changed) == validator(WORKFLOW).is_valid(changed), faults(WORKFLOW, changed)


_HEAD = "version: 1\nprocesses: {web: {command: serve}}\n"

_REFUSED = {
    "a list": "- 1",
    "nothing": "~",
    "no version": "processes: {a: {command: x}}",
    "another version": "version: 2\nprocesses: {a: {command: x}}",
    "a version as text": "version: '1'\nprocesses: {a: {command: x}}",
    "no processes": "version: 1",
    "an unknown key": f"{_HEAD}retian: 5",
    "an unknown key within": f"{_HEAD}build: {{stpes: []}}",
    "empty processes": "version: 1\nprocesses: {}",
    "the name of a process": "version: 1\nprocesses: {Web: {command: x}}",
    "a long name": f"version: 1\nprocesses: {{{'a' * 31}: {{command: x}}}}",
    "a process without a command": "version: 1\nprocesses: {a: {}}",
    "a command of two lines": 'version: 1\nprocesses: {a: {command: "x\\ny"}}',
    "replicas of web": "version: 1\nprocesses: {web: {command: x, replicas: 2}}",
    "health of a worker": "version: 1\nprocesses: {a: {command: x, health: {path: /}}}",
    "health without a path": "version: 1\nprocesses: {web: {command: x, health: {}}}",
    "a path that is a URL": "version: 1\nprocesses: {web: {command: x, health: {path: 'http://x'}}}",
    "a single step instead of a list": f"{_HEAD}build: {{steps: make}}",
    "a time with its unit": f"{_HEAD}build: {{timeout_seconds: 15m}}",
    "a branch": f"{_HEAD}triggers: {{push: {{a..b: staging}}}}",
    "a slug": f"{_HEAD}triggers: {{push: {{main: Staging}}}}",
    "digits as a slug": f"{_HEAD}triggers: {{push: {{main: '7'}}}}",
    "pull requests from nowhere": f"{_HEAD}triggers: {{pull_requests: {{close: keep}}}}",
    "how they are closed": f"{_HEAD}triggers: {{pull_requests: {{from: a, close: remove}}}}",
    "a list that skips": f"{_HEAD}triggers: {{skip: [skip deploy]}}",
    "nothing retained": f"{_HEAD}retain: 0",
    "all retained": f"{_HEAD}retain: all",
}


@pytest.mark.parametrize("text", _REFUSED.values(), ids=_REFUSED.keys())
def test_schema_and_reader_refuse(text: str) -> None:
    with pytest.raises(DocumentFault):
        read_workflow(text)
    assert faults(WORKFLOW, parse(text))


def test_only_the_reader_refuses() -> None:
    """A float with an integer value, and texts that are not plain YAML: duplicate keys, tags, merge keys, a second
    document."""
    text = f"{_HEAD}retain: 5.0"
    assert not faults(WORKFLOW, parse(text))
    with pytest.raises(DocumentFault):
        read_workflow(text)


def test_branch_pattern_matches_git() -> None:
    push = validator(WORKFLOW).schema["properties"]["triggers"]["properties"]["push"]
    assert push["propertyNames"]["pattern"] == f"^{REF.pattern}$"
    assert re.fullmatch(push["propertyNames"]["pattern"], "feature/login")
