"""`pharos webhooks` on both kinds of installation."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
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


@pytest.fixture(scope="module")
def extra_settings() -> Mapping[str, str]:
    return {"PHAROS_VARIABLES_KEY": "a secret of thirty-two characters or more"}


@pytest.fixture
def work(request: pytest.FixtureRequest, pharos: RunCommand) -> Callable[[Any], Any]:
    """Return a function that runs work in the database of the installation."""
    if request.node.callspec.params["pharos"] == "engines":
        url: str = request.getfixturevalue("own_database_url")
    else:
        platform: PlatformProcess = request.getfixturevalue("on_socket")
        url = f"sqlite+aiosqlite:///{platform.data / 'control.sqlite'}"

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


def _delivery(repository: int | None, body: bytes = b"{}", **answer: Any) -> WebhookDelivery:
    event = answer.pop("event", "push")
    delivery = Delivery(repository, "github", event, HEADERS, body, id="1-2-3")
    answer = {"is_first": False, "http_status": 202, "answer": "queued", **answer}
    return WebhookDelivery(**delivery.to_row(datetime.now(UTC)) | answer)


def _words(text: str) -> str:
    """Return the words of the text, without line breaks."""
    return " ".join(text.split())


def test_the_newest_deliveries_are_listed(pharos: RunCommand, add: Add, repository: int) -> None:
    queued = add(_delivery(repository, deployment_id=7))
    reason = "production is locked: " + "because of the holidays " * 9
    refused_ = add(
        _delivery(repository, http_status=409, answer="repository-not-ready", reason=reason, event=EVIL)
    )
    of_app = add(_delivery(None, answer="handled", http_status=200, event="installation", replay_of=queued))
    listed = run_json(pharos, "webhooks", "list", "-n", "3")
    assert [one["id"] for one in listed] == [of_app, refused_, queued]
    assert listed[2]["project"] == SLUG
    output = run_text(pharos, "webhooks", "list", "-n", "3")
    assert "\x1b" not in output and "\x07" not in output and "\u202e" not in output
    assert "[bold]b[/bold]" in _words(output)
    lines = output.splitlines()
    (first,) = [line for line in lines if line.startswith(f"{queued} ")]
    assert first.split()[-2:] == [SLUG, "queued"]
    assert lines[-1].split() == ["github", "push", "deployment", "7"]
    assert f"replay of {queued}" in output and "the Git host's" in output
    # The reason wraps, and is not cut.
    assert output.count("holidays") == 9
    wanted = ("webhooks", "list", "--repository", str(repository))
    assert [one["id"] for one in run_json(pharos, *wanted)][:2] == [refused_, queued]
    assert expect_refusal(pharos, "webhooks", "list", "--repository", "9999").startswith(
        "There is no repository"
    )
    assert expect_refusal(pharos, "webhooks", "list", "-n", "0") == (
        "0 deliveries cannot be listed: ask for 1 to 1,000."
    )


def test_a_delivery_is_shown_with_its_body(pharos: RunCommand, add: Add, repository: int) -> None:
    body = {"ref": "refs/heads/main", "pusher": {"name": f"Blåbær {EVIL}"}, "size": 10**30, "x": "\ud800"}
    number = str(add(_delivery(repository, json.dumps(body).encode(), reason="Because.")))
    shown = run_json(pharos, "webhooks", "show", number)
    assert (shown["body"], shown["id"]) == (body, int(number))
    assert shown["headers"] == {**HEADERS, "x-hub-signature-256": ["[redacted]"]}
    output = run_text(pharos, "webhooks", "show", number)
    assert "\x1b" not in output and "\u202e" not in output and "hunter2" not in output
    lines = output.splitlines()
    assert lines[0] == f"Delivery {number}"
    assert "answer       202 queued Because." in lines
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
    assert run_json(pharos, "webhooks", "show", number)["body"] == output
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
    line = expect_refusal(pharos, "webhooks", "replay", "9999")
    assert line == "No delivery 9999 is kept; `pharos webhooks list` shows those of the last 7 days."


def test_waiting_pushes_are_listed(
    pharos: RunCommand, add: Add, work: Callable[[Any], Any], repository: int
) -> None:
    assert run_text(pharos, "webhooks", "waiting") == "No push waits.\n"
    assert run_json(pharos, "webhooks", "waiting") == []
    environment = next(
        one for one in run_json(pharos, "environment", "list") if one["project"]["slug"] == SLUG
    )

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
    assert (output["project"], output["environment"], output["revision"]) == (SLUG, "live", REVISION)
    line = run_text(pharos, "webhooks", "waiting").splitlines()[1]
    assert line.split()[:5] == [f"{SLUG}/live", "main", REVISION[:12], "pull", "request"]
    run_json(pharos, "repository", "disconnect", str(repository), "--yes")
    assert run_json(pharos, "webhooks", "waiting") == []
    run_json(pharos, "repository", "connect", "git@github.com:acme/shop.git", "--project", SLUG)
    run_json(pharos, "unlock", f"{SLUG}/live")


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    """The arguments are refused before any request."""
    for arguments, output in (
        ((), "the following arguments are required: ACTION"),
        (("show",), "the following arguments are required: ID"),
        (("replay", "first"), "invalid int value: 'first'"),
        (("list", "--repository", "x"), "invalid int value: 'x'"),
    ):
        done = command_runner(tmp_path)("webhooks", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert output in done.stderr
