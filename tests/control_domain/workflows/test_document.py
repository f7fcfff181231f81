"""Every later version can read the workflow that a release stores."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from control_domain.workflows.document import (
    Health,
    Process,
    PullRequests,
    Steps,
    Triggers,
    WorkflowDocument,
    from_json,
    to_json,
)
from control_domain.workflows.read_workflow import read_workflow

_characters = st.characters(
    codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"], exclude_characters="\ufeff\ufffe\uffff"
)
_texts = st.text(_characters, min_size=1, max_size=30)
_steps = st.text(_characters | st.sampled_from("\n\t"), min_size=1, max_size=30)
_slugs = st.from_regex("[a-z0-9]{1,9}(-[a-z][a-z0-9]{0,9}){1,2}", fullmatch=True)
_branches = st.from_regex("[a-z0-9]{1,9}(/[a-z0-9]{1,9}){0,2}", fullmatch=True)
_names = st.from_regex("[a-z][a-z0-9-]{0,29}", fullmatch=True)


@st.composite
def _documents(draw: st.DrawFn) -> WorkflowDocument:
    """Return workflows with all possible settings."""

    def steps() -> Steps:
        return Steps(tuple(draw(st.lists(_steps, max_size=4))), draw(st.integers(1, 7200)))

    processes = {
        name: Process(name, draw(_texts), draw(st.integers(1, 20)))
        for name in draw(st.lists(_names.filter(lambda name: name != "web"), unique=True, max_size=4))
    }
    if draw(st.booleans()) or not processes:
        path = draw(st.from_regex('/[!-"$-~]{0,9}', fullmatch=True))
        health = Health(path, draw(st.integers(1, 3600))) if draw(st.booleans()) else None
        processes["web"] = Process("web", draw(_texts), 1, health)
    close = st.sampled_from(["destroy", "keep"])
    return WorkflowDocument(
        build=steps(),
        release=steps(),
        processes=processes,
        triggers=Triggers(
            push=draw(st.dictionaries(_branches, _slugs, max_size=4)),
            pull_requests=draw(st.none() | st.builds(PullRequests, _slugs, close)),
            skip=draw(st.none() | _texts),
        ),
        retain=draw(st.integers(1, 50)),
    )


@given(_documents())
def test_a_written_document_is_read_again(document: WorkflowDocument) -> None:
    assert from_json(json.loads(json.dumps(to_json(document)))) == document


@given(_documents())
def test_the_json_is_a_valid_workflow_document(document: WorkflowDocument) -> None:
    text = json.dumps(to_json(document), ensure_ascii=False)
    read = read_workflow(text)
    assert read == document and list(read.processes) == list(document.processes)


def test_json_of_the_first_version_is_readable() -> None:
    """Databases contain this text, so do not change this test."""
    least: dict[str, Any] = {
        "version": 1,
        "build": {"steps": [], "timeout_seconds": 900},
        "release": {"steps": [], "timeout_seconds": 900},
        "processes": {"worker": {"command": "w", "replicas": 1}},
        "triggers": {"push": {}},
        "retain": 5,
    }
    document = WorkflowDocument(Steps(), Steps(), {"worker": Process("worker", "w")}, Triggers({}))
    assert from_json(least) == document and to_json(document) == least
    most: dict[str, Any] = {
        "version": 1,
        "build": {"steps": ["make"], "timeout_seconds": 60},
        "release": {"steps": ["migrate"], "timeout_seconds": 61},
        "processes": {
            "web": {"command": "serve", "health": {"path": "/up", "timeout_seconds": 62}},
            "worker": {"command": "w", "replicas": 3},
        },
        "triggers": {
            "push": {"main": "production"},
            "pull_requests": {"from": "staging", "close": "keep"},
            "skip": "[skip]",
        },
        "retain": 9,
    }
    document = WorkflowDocument(
        Steps(("make",), 60),
        Steps(("migrate",), 61),
        {"web": Process("web", "serve", 1, Health("/up", 62)), "worker": Process("worker", "w", 3)},
        Triggers({"main": "production"}, PullRequests("staging", "keep"), "[skip]"),
        9,
    )
    assert from_json(most) == document and to_json(document) == most
