"""What tells hosts in the background: only where a token is set, through outages, and gone at the end."""

import asyncio
import logging
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import cast

import pytest

from control_domain.database.engine import Sessions
from control_workers.commit_statuses import report_periodically as kept
from control_workers.commit_statuses.report_periodically import report_periodically, running_status_reports
from git_hosts.commit_statuses import CommitStatus
from git_hosts.github.commit_statuses import GitHubStatusClient
from pipeline_contracts.settings import BadSettings, Settings
from tests.control_workers.commit_statuses.conftest import Pushed
from tests.control_workers.commit_statuses.fake_github import TOKEN, FakeGitHub, Held
from tests.support.eleven_operations import Database
from tests.support.statements import noted_statements

_LOGGER = "control_workers.commit_statuses"
_OFTEN = 0.02


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(_OFTEN)


def _told(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """In the background: a server or a task that another test has left behind may say something at any time."""
    return [record for record in caplog.records if record.name.startswith(_LOGGER)]


async def _push(pushed: Pushed) -> int:
    """One of now: the clock in the background is the real one."""
    return await pushed.push(created_at=datetime.now(UTC))


def _at_work() -> bool:
    return any(task.get_name() == "commit statuses" for task in asyncio.all_tasks())


def _settings(github: FakeGitHub) -> Settings:
    return Settings(github_token=TOKEN, github_api_url=github.url)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = report_periodically.__kwdefaults__
    monkeypatch.setitem(defaults, "every", _OFTEN)


async def test_without_a_token_nothing_is_done(pushed: Pushed, github: FakeGitHub) -> None:
    await _push(pushed)
    with noted_statements(pushed.sessions.kw["bind"]) as seen:
        async with running_status_reports(pushed.sessions, Settings(github_api_url=github.url)):
            assert not _at_work()
            for _ in range(5):
                await asyncio.sleep(_OFTEN)
    assert (seen, github.paths) == ([], [])


async def test_with_a_token_states_go_out_as_they_come(
    pushed: Pushed, github: FakeGitHub, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        async with running_status_reports(pushed.sessions, _settings(github)):
            number = await _push(pushed)
            await _until(lambda: github.states() == ["pending"])
            await pushed.move(number, "deploying", "running", "succeeded")
            await _until(lambda: github.states() == ["pending", "success"])
    assert not _at_work()
    assert await pushed.reported(number) == "success"
    assert TOKEN not in caplog.text


async def test_a_token_that_is_none_stops_the_start(sessions: Sessions) -> None:
    with pytest.raises(BadSettings, match="PHAROS_GITHUB_TOKEN"):
        async with running_status_reports(sessions, Settings(github_token="no token")):
            pass


@pytest.mark.parametrize("away", [1, math.inf])
async def test_it_goes_on_after_the_database_was_away(
    pushed: Pushed,
    statuses: GitHubStatusClient,
    github: FakeGitHub,
    caplog: pytest.LogCaptureFixture,
    away: float,
) -> None:
    await _push(pushed)
    database = Database(pushed.sessions)
    database.away = away
    stop = asyncio.Event()
    with caplog.at_level(logging.WARNING, _LOGGER):
        task = asyncio.create_task(report_periodically(cast(Sessions, database), {"github": statuses}, stop))
        await _until(lambda: bool(_told(caplog)))
        for _ in range(5):
            await asyncio.sleep(_OFTEN)
        database.away = 0
        await _until(lambda: github.states() == ["pending"])
        stop.set()
        await task
    # Once an outage.
    told = (
        "commit statuses cannot be reported: the database is unreachable: The database does not answer now."
    )
    assert [record.getMessage() for record in _told(caplog)] == [told]


async def test_a_fault_ends_nothing(
    pushed: Pushed, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[str] = []

    class Faulty:
        async def send_status(self, status: CommitStatus) -> None:
            asked.append(status.state)
            if len(asked) == 1:
                raise ZeroDivisionError

    monkeypatch.setattr(kept, "_FAULT_SECONDS", 0.0)
    await _push(pushed)
    stop = asyncio.Event()
    task = asyncio.create_task(report_periodically(pushed.sessions, {"github": Faulty()}, stop))
    await _until(lambda: asked == ["pending", "pending"])
    stop.set()
    await task
    (record,) = _told(caplog)
    assert record.exc_info is not None


async def test_what_is_being_told_at_the_end_is_written_down(pushed: Pushed, github: FakeGitHub) -> None:
    number = await _push(pushed)
    github.rule = held = Held()
    async with running_status_reports(pushed.sessions, _settings(github)):
        await held.come.wait()
        asyncio.get_running_loop().call_later(_OFTEN, held.go.set)
    assert await pushed.reported(number) == "pending"
    assert github.states() == ["pending"]


async def test_a_host_that_hangs_does_not_hold_the_end_up(
    pushed: Pushed, github: FakeGitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "_END_SECONDS", _OFTEN)
    number = await _push(pushed)
    github.rule = held = Held()
    async with running_status_reports(pushed.sessions, _settings(github)):
        await held.come.wait()
        assert _at_work()
    assert not _at_work()
    assert await pushed.reported(number) is None
