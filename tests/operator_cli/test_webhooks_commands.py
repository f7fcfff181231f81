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
from tests.support.commands import Run, ask, refused, run_in, tell
from tests.support.platform_process import PlatformProcess

SLUG = "webhooks-shop"
REVISION = "0123456789abcdef0123456789abcdef01234567"
# Of what a stranger has written nothing acts on the terminal.
EVIL = "a\x1b[31mred\x07 [bold]b[/bold]\u202e"
HEADERS = {"x-github-event": ["push"], "x-hub-signature-256": ["sha256=hunter2"], "user-agent": ["a", EVIL]}
Add = Callable[[Any], int]
"""Adds a row to the installation's database; gives its ID."""


@pytest.fixture(scope="module")
def more_settings() -> Mapping[str, str]:
    return {"PHAROS_VARIABLES_KEY": "a secret of thirty-two characters or more"}


@pytest.fixture
def work(request: pytest.FixtureRequest, pharos: Run) -> Callable[[Any], Any]:
    """What does something in the database of the installation that the commands are run on."""
    if request.node.callspec.params["pharos"] == "engines":
        url: str = request.getfixturevalue("own_database_url")
    else:
        platform: PlatformProcess = request.getfixturevalue("on_socket")
        url = f"sqlite+aiosqlite:///{platform.data / 'control.sqlite'}"

    async def work_there(do: Callable[[AsyncSession], Awaitable[Any]]) -> Any:
        engine = open_engine(url)
        async with open_sessions(engine)() as session, session.begin():
            done = await do(session)
        await engine.dispose()
        return done

    return lambda do: asyncio.run(work_there(do))


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
def repository(pharos: Run) -> int:
    """Of the kind github, in a project of its own."""
    if SLUG not in {one["slug"] for one in ask(pharos, "project", "list")}:
        ask(pharos, "project", "create", SLUG)
        ask(pharos, "environment", "create", "Live", "--type", "production", "--project", SLUG)
        ask(pharos, "repository", "connect", "git@github.com:acme/shop.git", "--project", SLUG)
    repositories = ask(pharos, "repository", "list")
    (number,) = [one["id"] for one in repositories if one["project"]["slug"] == SLUG]
    assert isinstance(number, int)
    return number


def _delivery(repository: int | None, body: bytes = b"{}", **answer: Any) -> WebhookDelivery:
    event = answer.pop("event", "push")
    delivery = Delivery(repository, "github", event, HEADERS, body, id="1-2-3")
    answer = {"is_first": False, "http_status": 202, "answer": "queued", **answer}
    return WebhookDelivery(**delivery.to_row(datetime.now(UTC)) | answer)


def _words(text: str) -> str:
    """As it is read, however it was folded."""
    return " ".join(text.split())


def test_the_newest_are_listed(pharos: Run, add: Add, repository: int) -> None:
    queued = add(_delivery(repository, deployment_id=7))
    reason = "production is locked: " + "because of the holidays " * 9
    refused_ = add(
        _delivery(repository, http_status=409, answer="repository-not-ready", reason=reason, event=EVIL)
    )
    of_app = add(_delivery(None, answer="handled", http_status=200, event="installation", replay_of=queued))
    listed = ask(pharos, "webhooks", "list", "-n", "3")
    assert [one["id"] for one in listed] == [of_app, refused_, queued]
    assert listed[2]["project"] == SLUG
    told = tell(pharos, "webhooks", "list", "-n", "3")
    assert "\x1b" not in told and "\x07" not in told and "\u202e" not in told
    assert "[bold]b[/bold]" in _words(told)
    lines = told.splitlines()
    (first,) = [line for line in lines if line.startswith(f"{queued} ")]
    assert first.split()[-2:] == [SLUG, "queued"]
    assert lines[-1].split() == ["github", "push", "deployment", "7"]
    assert f"replay of {queued}" in told and "the Git host's" in told
    # The reason is folded, not cut off.
    assert told.count("holidays") == 9
    wanted = ("webhooks", "list", "--repository", str(repository))
    assert [one["id"] for one in ask(pharos, *wanted)][:2] == [refused_, queued]
    assert refused(pharos, "webhooks", "list", "--repository", "9999").startswith("There is no repository")
    assert refused(pharos, "webhooks", "list", "-n", "0") == (
        "0 deliveries cannot be listed: ask for 1 to 1,000."
    )


def test_one_is_shown_with_its_body(pharos: Run, add: Add, repository: int) -> None:
    body = {"ref": "refs/heads/main", "pusher": {"name": f"Blåbær {EVIL}"}, "size": 10**30, "x": "\ud800"}
    number = str(add(_delivery(repository, json.dumps(body).encode(), reason="Because.")))
    shown = ask(pharos, "webhooks", "show", number)
    assert (shown["body"], shown["id"]) == (body, int(number))
    assert shown["headers"] == {**HEADERS, "x-hub-signature-256": ["[redacted]"]}
    told = tell(pharos, "webhooks", "show", number)
    assert "\x1b" not in told and "\u202e" not in told and "hunter2" not in told
    lines = told.splitlines()
    assert lines[0] == f"Delivery {number}"
    assert "answer       202 queued Because." in lines
    assert "x-hub-signature-256: [redacted]" in lines
    assert '  "ref": "refs/heads/main",' in lines
    assert '    "name": "Blåbær a\\u001b[31mred\\u0007 [bold]b[/bold] "' in lines


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"payload=%7B%7D", "payload=%7B%7D"),
        (b'{"a": NaN}', '{"a": NaN}'),
        (b"\xff{", "\ufffd{"),
        (b"[" * 100_000, "[" * 100_000),
        (b"", ""),
    ],
    ids=["form", "NaN", "bytes", "deep", "nothing"],
)
def test_a_body_that_is_no_json_is_text(
    pharos: Run, add: Add, repository: int, body: bytes, told: str
) -> None:
    number = str(add(_delivery(repository, body, http_status=422, answer="payload-not-usable")))
    assert ask(pharos, "webhooks", "show", number)["body"] == told
    assert told[:1000] in tell(pharos, "webhooks", "show", number)


def test_one_is_run_again(pharos: Run, add: Add, repository: int) -> None:
    body = b'{"zen": "Keep it logically awesome.", "hook_id": 1}'
    headers = {"x-github-event": ["ping"]}
    row = _delivery(repository, body, event="ping", answer="pong", http_status=200)
    row.headers = json.dumps(headers)
    number = add(row)
    made = ask(pharos, "webhooks", "replay", str(number))
    assert (made["status"], made["replay_of"]) == ("pong", number)
    told = tell(pharos, "webhooks", "replay", str(number))
    assert f"replay of {number}" in told and "pong" in told
    line = refused(pharos, "webhooks", "replay", "9999")
    assert line == "No delivery 9999 is kept; `pharos webhooks list` shows those of the last 7 days."


def test_what_waits_is_listed(pharos: Run, add: Add, work: Callable[[Any], Any], repository: int) -> None:
    assert tell(pharos, "webhooks", "waiting") == "No push waits.\n"
    assert ask(pharos, "webhooks", "waiting") == []
    environment = next(one for one in ask(pharos, "environment", "list") if one["project"]["slug"] == SLUG)

    async def number_of(session: AsyncSession) -> int:
        query = select(Environment.id).where(Environment.public_id == environment["id"])
        return (await session.execute(query)).scalar_one()

    # In a locked environment it goes on waiting, whoever looks.
    ask(pharos, "lock", f"{SLUG}/live", "--reason", "a test")
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
    (told,) = ask(pharos, "webhooks", "waiting")
    assert (told["project"], told["environment"], told["revision"]) == (SLUG, "live", REVISION)
    line = tell(pharos, "webhooks", "waiting").splitlines()[1]
    assert line.split()[:5] == [f"{SLUG}/live", "main", REVISION[:12], "pull", "request"]
    ask(pharos, "repository", "disconnect", str(repository), "--yes")
    assert ask(pharos, "webhooks", "waiting") == []
    ask(pharos, "repository", "connect", "git@github.com:acme/shop.git", "--project", SLUG)
    ask(pharos, "unlock", f"{SLUG}/live")


def test_arguments_that_are_wrong(tmp_path: Path) -> None:
    """Refused before anything is asked."""
    for arguments, told in (
        ((), "the following arguments are required: ACTION"),
        (("show",), "the following arguments are required: ID"),
        (("replay", "first"), "invalid int value: 'first'"),
        (("list", "--repository", "x"), "invalid int value: 'x'"),
    ):
        done = run_in(tmp_path)("webhooks", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert told in done.stderr
