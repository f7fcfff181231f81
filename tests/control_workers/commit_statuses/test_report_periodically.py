"""The background task that reports commit statuses: needs a token, survives outages, ends at shutdown."""

import asyncio
import logging
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import cast

import pytest

from control_domain.database.engine import Sessions
from control_workers.commit_statuses import report_periodically as worker_module
from control_workers.commit_statuses.report_periodically import report_periodically, running_status_reports
from git_hosts.commit_statuses import CommitStatus
from git_hosts.github.commit_statuses import GitHubStatusClient
from pipeline_contracts.settings import BadSettings, Settings
from tests.control_workers.commit_statuses.conftest import Pushed
from tests.control_workers.commit_statuses.fake_github import TOKEN, DelayedResponse, FakeGitHub
from tests.support.databases import recorded_statements
from tests.support.eleven_steps import Database

_LOGGER = "control_workers.commit_statuses"
_INTERVAL = 0.02


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(_INTERVAL)


def _log_records(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Only this logger: servers and tasks of other tests may still log."""
    return [record for record in caplog.records if record.name.startswith(_LOGGER)]


async def _push(pushed: Pushed) -> int:
    """Insert a deployment of now: the background task uses the real clock."""
    return await pushed.push(created_at=datetime.now(UTC))


def _is_running() -> bool:
    return any(task.get_name() == "commit statuses" for task in asyncio.all_tasks())


def _settings(github: FakeGitHub) -> Settings:
    return Settings(github_token=TOKEN, github_api_url=github.url)


@pytest.fixture(autouse=True)
def short_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = report_periodically.__kwdefaults__
    monkeypatch.setitem(defaults, "every", _INTERVAL)


async def test_without_a_token_nothing_runs(pushed: Pushed, github: FakeGitHub) -> None:
    await _push(pushed)
    with recorded_statements(pushed.sessions.kw["bind"]) as seen:
        async with running_status_reports(pushed.sessions, Settings(github_api_url=github.url)):
            assert not _is_running()
            for _ in range(5):
                await asyncio.sleep(_INTERVAL)
    assert (seen, github.paths) == ([], [])


async def test_with_a_token_each_new_state_is_reported(
    pushed: Pushed, github: FakeGitHub, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        async with running_status_reports(pushed.sessions, _settings(github)):
            number = await _push(pushed)
            await _until(lambda: github.states() == ["pending"])
            await pushed.transition(number, "deploying", "running", "succeeded")
            await _until(lambda: github.states() == ["pending", "success"])
    assert not _is_running()
    assert await pushed.reported(number) == "success"
    assert TOKEN not in caplog.text


async def test_an_invalid_token_fails_the_startup(sessions: Sessions) -> None:
    with pytest.raises(BadSettings, match="PHAROS_GITHUB_TOKEN"):
        async with running_status_reports(sessions, Settings(github_token="no token")):
            pass


@pytest.mark.parametrize("away", [1, math.inf])
async def test_reporting_resumes_after_a_database_outage(
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
        await _until(lambda: bool(_log_records(caplog)))
        for _ in range(5):
            await asyncio.sleep(_INTERVAL)
        database.away = 0
        await _until(lambda: github.states() == ["pending"])
        stop.set()
        await task
    # One line per outage.
    expected = (
        "commit statuses cannot be reported: the database is unreachable: The database does not answer now."
    )
    assert [record.getMessage() for record in _log_records(caplog)] == [expected]


async def test_an_unexpected_error_does_not_end_the_task(
    pushed: Pushed, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    attempts: list[str] = []

    class Faulty:
        async def send_status(self, status: CommitStatus) -> None:
            attempts.append(status.state)
            if len(attempts) == 1:
                raise ZeroDivisionError

    monkeypatch.setattr(worker_module, "_PAUSE_AFTER_FAULT_SECONDS", 0.0)
    await _push(pushed)
    stop = asyncio.Event()
    task = asyncio.create_task(report_periodically(pushed.sessions, {"github": Faulty()}, stop))
    await _until(lambda: attempts == ["pending", "pending"])
    stop.set()
    await task
    (record,) = _log_records(caplog)
    assert record.exc_info is not None


async def test_a_report_in_flight_at_shutdown_is_stored(pushed: Pushed, github: FakeGitHub) -> None:
    number = await _push(pushed)
    github.rule = held = DelayedResponse()
    async with running_status_reports(pushed.sessions, _settings(github)):
        await held.received.wait()
        asyncio.get_running_loop().call_later(_INTERVAL, held.go.set)
    assert await pushed.reported(number) == "pending"
    assert github.states() == ["pending"]


async def test_a_hanging_host_does_not_delay_the_shutdown(
    pushed: Pushed, github: FakeGitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "_SHUTDOWN_SECONDS", _INTERVAL)
    number = await _push(pushed)
    github.rule = held = DelayedResponse()
    async with running_status_reports(pushed.sessions, _settings(github)):
        await held.received.wait()
        assert _is_running()
    assert not _is_running()
    assert await pushed.reported(number) is None
