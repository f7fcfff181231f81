"""`pharos webhooks` on a running `pharos up`."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.engine import open_engine, open_sessions
from control_domain.tables.projects import Environment
from control_domain.tables.webhooks import WaitingPush, WebhookDelivery
from control_domain.webhooks.deliveries import Delivery
from tests.support.commands import RunCommand, command_runner, expect_refusal, run_json, run_text
from tests.support.platform_process import PlatformProcess

SLUG = "webhooks-shop"
REVISION = "0123456789abcdef0123456789abcdef01234567"
# Text from strangers must not control the terminal.
EVIL = "a\x1b[31mred\x07 [bold]b[/bold]\u202e"
HEADERS = {"x-github-event": ["push"], "x-hub-signature-256": ["sha256=hunter2"], "user-agent": ["a", EVIL]}
Add = Callable[[Any], int]
"""Adds a row to the installation's database and returns its ID."""


@pytest.fixture
def work(on_socket: PlatformProcess) -> Callable[[Any], Any]:
    """Return a function that runs work in the database of the installation."""
    url = f"sqlite+aiosqlite:///{on_socket.data / 'control.sqlite'}"

    async def run_work(do: Callable[[AsyncSession], Awaitable[Any]]) -> Any:
        engine = open_engine(url)
        async with open_sessions(engine)() as session, session.begin():
            done = await do(session)
        await engine.dispose()
        return done

    return lambda do: asyncio.run(run_work(do))


@pytest.fixture
def add(work: Callable[[Any], Any]) -> Add:
    def add_row(row: Any) -> int:
        async def do(session: AsyncSession) -> int:
            session.add(row)
            await session.flush()
            number: int = row.id
            return number

        done: int = work(do)
        return done

    return add_row


@pytest.fixture
def repository(pharos: RunCommand) -> int:
    """The ID of a GitHub repository in a new project."""
    if SLUG not in {one["slug"] for one in run_json(pharos, "project", "list")}:
        run_json(pharos, "project", "create", SLUG)
        run_json(pharos, "environment", "create", "Live", "--type", "production", "--project", SLUG)
        run_json(pharos, "repository", "connect", "git@github.com:acme/shop.git", "--project", SLUG)
    repositories = run_json(pharos, "repository", "list")
    (number,) = [one["id"] for one in repositories if one["project"]["slug"] == SLUG]
    assert isinstance(number, int)
    return number


def _delivery(repository: int, body: bytes = b"{}", **answer: Any) -> WebhookDelivery:
    event = answer.pop("event", "push")
    delivery = Delivery(repository, "github", event, HEADERS, body, id="1-2-3")
    answer = {"is_first": False, "http_status": 202, "answer": "queued", **answer}
    return WebhookDelivery(**delivery.to_row(datetime.now(UTC)) | answer)


def test_the_newest_deliveries_are_listed(pharos: RunCommand, add: Add, repository: int) -> None:
    queued = add(_delivery(repository, deployment_id=7))
    reason = "production is locked: " + "because of the holidays " * 9
    refused = add(
        _delivery(repository, http_status=409, answer="repository-not-ready", reason=reason, event=EVIL)
    )
    replay = add(_delivery(repository, answer="ignored", http_status=200, replay_of=queued))
    assert [one["id"] for one in run_json(pharos, "webhooks", "list", "-n", "3")] == [replay, refused, queued]
    output = run_text(pharos, "webhooks", "list", "-n", "3")
    assert "\x1b" not in output and "\x07" not in output and "\u202e" not in output
    # Text from strangers is not markup, and a long reason wraps.
    assert "[bold]b" in output and output.count("holidays") == 9
    lines = output.splitlines()
    assert lines[0].split() == ["ID", "When", "Project", "Event", "Response"]
    (first,) = [line for line in lines if line.strip().startswith(f"{queued} ")]
    assert first.split()[-4:] == [SLUG, "github", "push", "queued"]
    assert max(map(len, lines)) <= 80
    assert f"replay of {queued}" in output
    for name in (str(repository), SLUG):
        listed = run_json(pharos, "webhooks", "list", "--repository", name, "-n", "2")
        assert [one["id"] for one in listed] == [replay, refused]
    assert run_json(pharos, "webhooks", "list", "--repository", "my-project") == []
    line = expect_refusal(pharos, "webhooks", "list", "--repository", "9999", status=5)
    assert line == "The account has no such repository."


def test_a_delivery_is_shown_with_its_body(pharos: RunCommand, add: Add, repository: int) -> None:
    body = {"ref": "refs/heads/main", "pusher": {"name": f"Blåbær {EVIL}"}, "size": 10**30, "x": "\ud800"}
    number = str(add(_delivery(repository, json.dumps(body).encode(), reason="Because.")))
    shown = run_json(pharos, "webhooks", "show", number)
    assert (json.loads(shown["body"]), shown["id"]) == (body, int(number))
    assert shown["headers"] == {**HEADERS, "x-hub-signature-256": ["[redacted]"]}
    output = run_text(pharos, "webhooks", "show", number)
    assert "\x1b" not in output and "\u202e" not in output and "hunter2" not in output
    lines = output.splitlines()
    assert lines[0] == f"Delivery {number}"
    assert "response     202 queued Because." in lines and f"project      {SLUG}" in lines
    assert "x-hub-signature-256: [redacted]" in lines
    assert '  "ref": "refs/heads/main",' in lines
    assert '    "name": "Blåbær a\\u001b[31mred\\u0007 [bold]b[/bold] "' in lines


@pytest.mark.parametrize(
    ("body", "output"),
    [
        (b"payload=%7B%7D", "payload=%7B%7D"),
        (b'{"a": NaN}', '{"a": NaN}'),
        (b"\xff{", "\ufffd{"),
        (b"[" * 100_000, "[" * 100_000),
        (b"", ""),
    ],
    ids=["form", "NaN", "bytes", "deep", "nothing"],
)
def test_a_body_that_is_not_json_is_printed_as_text(
    pharos: RunCommand, add: Add, repository: int, body: bytes, output: str
) -> None:
    number = str(add(_delivery(repository, body, http_status=422, answer="payload-not-usable")))
    assert output[:1000] in run_text(pharos, "webhooks", "show", number)


def test_a_delivery_is_replayed(pharos: RunCommand, add: Add, repository: int) -> None:
    body = b'{"zen": "Keep it logically awesome.", "hook_id": 1}'
    headers = {"x-github-event": ["ping"]}
    row = _delivery(repository, body, event="ping", answer="pong", http_status=200)
    row.headers = json.dumps(headers)
    number = add(row)
    created = run_json(pharos, "webhooks", "replay", str(number))
    assert (created["status"], created["replay_of"]) == ("pong", number)
    output = run_text(pharos, "webhooks", "replay", str(number))
    assert f"replay of {number}" in output and "pong" in output
    for verb in ("replay", "show"):
        line = expect_refusal(pharos, "webhooks", verb, "9999", status=5)
        assert line.startswith(
            "There is no delivery 9999 of the last 7 days. `pharos webhooks list` lists them;"
        )


def test_waiting_pushes_are_listed(
    pharos: RunCommand, add: Add, work: Callable[[Any], Any], repository: int
) -> None:
    assert run_text(pharos, "webhooks", "waiting") == "No push waits.\n"
    assert run_json(pharos, "webhooks", "waiting") == []
    (environment,) = run_json(pharos, "project", "show", SLUG)["environments"]

    async def number_of(session: AsyncSession) -> int:
        query = select(Environment.id).where(Environment.public_id == environment["id"])
        return (await session.execute(query)).scalar_one()

    # In a locked environment the push keeps waiting.
    run_json(pharos, "lock", f"{SLUG}/live", "--reason", "a test")
    waiting = WaitingPush(
        environment_id=work(number_of),
        repository_id=repository,
        branch="main",
        trigger="pull_request",
        pushed_revision=REVISION,
        source="webhook",
        created_at=datetime.now(UTC),
    )
    add(waiting)
    (output,) = run_json(pharos, "webhooks", "waiting")
    assert (output["environment"]["slug"], output["revision"]) == ("live", REVISION)
    assert run_json(pharos, "webhooks", "waiting", "--project", "my-project") == []
    line = run_text(pharos, "webhooks", "waiting").splitlines()[1]
    assert line.split()[:5] == [f"{SLUG}/live", "main", REVISION[:12], "pull", "request"]
    run_json(pharos, "repository", "disconnect", str(repository), "--yes")
    assert run_json(pharos, "webhooks", "waiting") == []
    run_json(pharos, "repository", "connect", "git@github.com:acme/shop.git", "--project", SLUG)
    run_json(pharos, "unlock", f"{SLUG}/live")


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    """The arguments are refused before any request."""
    for arguments, output in (
        ((), "the following arguments are required: VERB"),
        (("list", "-n", "0"), "0 is not between 1 and 1000"),
        (("show",), "the following arguments are required: ID"),
        (("replay", "first"), "invalid int value: 'first'"),
    ):
        done = command_runner(tmp_path)("webhooks", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert output in done.stderr
