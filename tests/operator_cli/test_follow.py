"""Following a deployment: the lines that are shown, and the sentence about the outcome."""

import argparse
import json
from collections.abc import Iterator
from typing import Any

import pytest

from operator_cli.api.client import Api
from operator_cli.deployments.follow import follow_deployment
from operator_cli.errors import CommandFailed
from tests.support.fake_api import Answer, FakeApi, page, running_fake_api

ASKED, APPROVED, FINISHED = (f"2026-11-18T{time}.000Z" for time in ("10:00:00", "11:59:58", "12:00:00"))
PEOPLE = argparse.Namespace(json=False, quiet=False)


@pytest.fixture
def server() -> Iterator[FakeApi]:
    with running_fake_api() as running:
        yield running


def _finish(server: FakeApi, *, environment: str | None = "env_1", status: str = "succeeded") -> Any:
    """Let the server have a finished deployment with three lines; return its document."""
    deployment = {
        "id": 7,
        "environment_id": environment,
        "status": status,
        "created_at": ASKED,
        "finished_at": FINISHED,
    }
    lines = [{"at": ASKED, "stream": "system", "text": text} for text in ("one", "two", "three")]
    events = [("line", f"id: {number}\n", line) for number, line in enumerate(lines, 1)]
    events.append(("status", "", {"deployment_id": 7, "status": status}))
    stream = "".join(f"event: {name}\n{id_}data: {json.dumps(data)}\n\n" for name, id_, data in events)
    processes = {"address": "http://shop.example", "live": {"deployment_id": 7}}
    server.by_path = {
        "/api/v1/deployments/7/log": Answer(
            content=stream.encode(), headers={"Content-Type": "text/event-stream"}
        ),
        "/api/v1/deployments/7": Answer(content={"data": deployment}),
        "/api/v1/environments/env_1/deployments": page([{**deployment, "decided_at": APPROVED}]),
        "/api/v1/environments/env_1/processes": Answer(content={"data": processes}),
    }
    return deployment


def test_waiting_for_a_second_person_does_not_count(
    server: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment = _finish(server)
    with Api(server.target) as api:
        assert follow_deployment(api, PEOPLE, deployment) == 0
    assert capsys.readouterr().out.splitlines() == [
        "» one",
        "» two",
        "» three",
        "Deployment 7 is live at http://shop.example after 2.0 s.",
    ]


def test_the_last_lines_are_shown(server: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    deployment = _finish(server)
    with Api(server.target) as api:
        follow_deployment(api, PEOPLE, deployment, 1)
    assert capsys.readouterr().out.splitlines()[0] == "» three"


def test_a_deployment_of_a_removed_environment(server: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    deployment = _finish(server, environment=None)
    with Api(server.target) as api:
        assert follow_deployment(api, PEOPLE, deployment) == 0
    assert capsys.readouterr().out.endswith("Deployment 7 has succeeded; it is not live any more.\n")


def test_quiet_prints_the_id_and_json_the_address(
    server: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment = _finish(server)
    with Api(server.target) as api:
        follow_deployment(api, argparse.Namespace(json=False, quiet=True), deployment)
        assert capsys.readouterr().out == "7\n"
        follow_deployment(api, argparse.Namespace(json=True, quiet=False), deployment)
    *_, outcome = map(json.loads, capsys.readouterr().out.splitlines())
    assert outcome == {**deployment, "address": "http://shop.example", "is_live": True}


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ("failed", "Deployment 7 has failed after 2.0 s: three"),
        ("rejected", "Deployment 7 is rejected. three"),
        ("canceled", "Deployment 7 is canceled."),
    ],
)
def test_other_outcomes_are_failures(server: FakeApi, status: str, message: str) -> None:
    deployment = _finish(server, status=status)
    with Api(server.target) as api, pytest.raises(CommandFailed) as failed:
        follow_deployment(api, PEOPLE, deployment)
    assert str(failed.value) == message
