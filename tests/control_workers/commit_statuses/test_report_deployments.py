"""Each state of a deployment is reported to its host once, through failures of both sides."""

import asyncio
import logging
from datetime import timedelta

import pytest
from aiohttp import web
from sqlalchemy import select

from control_domain.accounts.operations import create_account
from control_domain.audit import Actor
from control_domain.previews.operations import close_preview
from control_domain.projects.find import DeployTarget
from control_domain.projects.operations import create_environment, create_project
from control_domain.repositories.operations import connect_repository
from control_domain.tables.deployments import Deployment
from control_domain.tables.notifications import AlertEvent
from control_domain.tables.projects import Environment
from control_workers.commit_statuses.report_deployments import Reporter
from git_hosts.github.commit_statuses import GitHubStatusClient
from pipeline_contracts.rate_limits import RateLimit
from tests.control_workers.commit_statuses.conftest import Clock, Pushed
from tests.control_workers.commit_statuses.fake_github import (
    TOKEN,
    DelayedResponse,
    FakeGitHub,
    ReceivedStatus,
    cut_connection,
    respond_with,
)
from tests.support.databases import recorded_statements
from tests.support.managed_project import NOW, REVISION

_LOGGER = "control_workers.commit_statuses"
NEVER_STOPPED = asyncio.Event()


@pytest.fixture
def reporter(pushed: Pushed, statuses: GitHubStatusClient, clock: Clock) -> Reporter:
    return Reporter(pushed.sessions, {"github": statuses}, clock=clock)


@pytest.mark.parametrize(
    ("path", "end"),
    [
        (("deploying", "running", "succeeded"), "success"),
        (("deploying", "failed"), "failure"),
        (("awaiting_approval", "queued", "deploying", "running", "failed"), "failure"),
        (("canceled",), "error"),
        (("awaiting_approval", "rejected"), "error"),
    ],
)
async def test_each_state_is_reported_once(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub, path: tuple[str, ...], end: str
) -> None:
    number = await pushed.push()
    await reporter.report(NEVER_STOPPED)
    for status in path:
        assert await pushed.reported(number) == "pending"
        await pushed.transition(number, status)
        await reporter.report(NEVER_STOPPED)
        await reporter.report(NEVER_STOPPED)
    assert github.states() == ["pending", end]
    assert await pushed.reported(number) == end
    assert {status.context for status in github.accepted} == {"pharos/shop/production"}


async def test_a_restart_repeats_no_report(
    pushed: Pushed, statuses: GitHubStatusClient, github: FakeGitHub, clock: Clock
) -> None:
    number = await pushed.push()
    for status in (None, "deploying", "running", "succeeded", None):
        if status is not None:
            await pushed.transition(number, status)
        await Reporter(pushed.sessions, {"github": statuses}, clock=clock).report(NEVER_STOPPED)
    assert github.states() == ["pending", "success"]


async def test_a_deployment_that_already_ended_is_reported_once(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub
) -> None:
    number = await pushed.push()
    await pushed.transition(number, "deploying", "failed")
    await reporter.report(NEVER_STOPPED)
    assert github.states() == ["failure"]


async def test_each_round_reports_the_twenty_oldest(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub
) -> None:
    commits = await pushed.push_finished(25)
    await reporter.report(NEVER_STOPPED)
    assert [status.revision for status in github.accepted] == commits[:20]
    await reporter.report(NEVER_STOPPED)
    assert [status.revision for status in github.accepted] == commits


async def test_accounts_are_reported_separately(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub
) -> None:
    async with pushed.sessions() as session, session.begin():
        account = await create_account(session, "Third", "third", RateLimit(10, 20), NOW)
        project = await create_project(session, account, "Shop", "shop", NOW)
        target = await create_environment(session, project, "Production", "production", "production", NOW)
        url = "https://github.com/third/shop.git"
        repository = await connect_repository(session, project.id, "github", url, "main", NOW)
        repository.full_name = "third/shop"
    theirs = {"account_id": account.id, "project_id": project.id, "environment_id": target.id}
    await pushed.push(status="failed")
    await pushed.push(status="succeeded", repository_id=repository.id, **theirs)
    await reporter.report(NEVER_STOPPED)
    received = [(status.repository, status.revision, status.state) for status in github.accepted]
    assert received == [("acme/shop", REVISION, "failure"), ("third/shop", REVISION, "success")]


@pytest.mark.parametrize("status", [401, 403, 404, 422])
async def test_a_refused_status_is_not_retried(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    number = await pushed.push()
    github.rule = respond_with(status, {"message": "Not so"})
    with caplog.at_level(logging.DEBUG, _LOGGER):
        await reporter.report(NEVER_STOPPED)
        await pushed.transition(number, "deploying", "running", "succeeded")
        await reporter.report(NEVER_STOPPED)
    assert len(github.paths) == 1
    assert await pushed.reported(number) == "refused"
    (record,) = (record for record in caplog.records if record.name.startswith(_LOGGER))
    assert record.getMessage().startswith(
        f"github refuses the commit status of deployment {number}: GitHub answers {status}"
    )
    assert TOKEN not in caplog.text


async def test_a_refused_status_does_not_block_others(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub
) -> None:
    commits = await pushed.push_finished(3)
    github.responses.append(respond_with(404))
    await reporter.report(NEVER_STOPPED)
    assert [status.revision for status in github.accepted] == commits[1:]


async def test_refusals_are_recorded_until_the_host_accepts_again(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub
) -> None:
    await pushed.push_finished(3)
    github.responses += [respond_with(404, {"message": "Not so"})]
    # The first is refused, and the others are accepted: only the first acceptance is a change.
    await reporter.report(NEVER_STOPPED)
    async with pushed.sessions() as session:
        stored = (await session.execute(select(AlertEvent).order_by(AlertEvent.id))).scalars().all()
    events = [event for event in stored if event.kind == "platform.commit_statuses"]
    subject = f"{pushed.managed.project.id} github acme/shop"
    assert [(event.subject, event.state) for event in events] == [(subject, "firing"), (subject, "resolved")]
    assert {(event.project_id, event.environment_id) for event in events} == {
        (pushed.managed.project.id, None)
    }
    assert "Not so" in events[0].facts and TOKEN not in events[0].facts


async def test_a_disconnected_repository_has_no_refusals(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub
) -> None:
    """No status of it is ever accepted, so nothing else would end the incident."""
    github.rule = respond_with(404, {"message": "Not so"})
    await pushed.push(status="succeeded")
    await reporter.report(NEVER_STOPPED)
    await pushed.managed.disconnect_repository()
    # Refused meanwhile.
    await pushed.push(status="succeeded", revision="a" * 40)
    await reporter.report(NEVER_STOPPED)
    assert len(github.paths) == 2
    async with pushed.sessions() as session:
        query = select(AlertEvent.subject, AlertEvent.state).where(
            AlertEvent.kind == "platform.commit_statuses"
        )
        events = (await session.execute(query.order_by(AlertEvent.id))).all()
    subject = f"{pushed.managed.project.id} github acme/shop"
    assert events == [(subject, "firing"), (subject, "resolved")]


async def test_the_backoff_for_an_unavailable_host_grows(
    pushed: Pushed,
    reporter: Reporter,
    github: FakeGitHub,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await pushed.push_finished(2)
    github.rule = respond_with(502)
    for attempts, pause in enumerate([2, 4, 8, 16, 32, 64, 128, 256, 300, 300], 1):
        await reporter.report(NEVER_STOPPED)
        clock.advance(pause - 1)
        await reporter.report(NEVER_STOPPED)
        assert len(github.paths) == attempts
        clock.advance(1)
    github.rule = None
    await reporter.report(NEVER_STOPPED)
    assert github.states() == ["success", "success"]
    expected = "commit statuses for github are delayed: GitHub answers 502."
    assert [record.getMessage() for record in caplog.records if record.name.startswith(_LOGGER)] == [expected]


async def test_a_success_resets_the_backoff(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub, clock: Clock
) -> None:
    number = await pushed.push()
    for _ in range(5):
        github.responses.append(respond_with(500))
        await reporter.report(NEVER_STOPPED)
        clock.advance(300)
    await reporter.report(NEVER_STOPPED)
    await pushed.transition(number, "canceled")
    github.responses.append(respond_with(500))
    await reporter.report(NEVER_STOPPED)
    clock.advance(2)
    await reporter.report(NEVER_STOPPED)
    assert github.states() == ["pending", "error"]


@pytest.mark.parametrize(("wanted", "seconds"), [("120", 120), ("1", 2), ("9" * 400, 3600)])
async def test_retry_after_of_a_host_is_respected(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub, clock: Clock, wanted: str, seconds: int
) -> None:
    await pushed.push_finished(2)
    github.responses.append(respond_with(403, Retry_After=wanted))
    await reporter.report(NEVER_STOPPED)
    clock.advance(seconds - 1)
    await reporter.report(NEVER_STOPPED)
    assert len(github.paths) == 1
    clock.advance(1)
    await reporter.report(NEVER_STOPPED)
    assert github.states() == ["success", "success"]


async def test_no_queries_run_during_the_backoff(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub
) -> None:
    await pushed.push()
    github.responses.append(respond_with(500))
    await reporter.report(NEVER_STOPPED)
    with recorded_statements(pushed.sessions.kw["bind"]) as seen:
        await reporter.report(NEVER_STOPPED)
    assert seen == []


async def test_a_status_that_always_fails_does_not_block_others(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub, clock: Clock
) -> None:
    commits = await pushed.push_finished(4)

    async def fail(request: web.Request, status: ReceivedStatus) -> web.StreamResponse | None:
        return web.Response(status=500) if status.revision == commits[0] else None

    github.rule = fail
    for _ in range(3):
        await reporter.report(NEVER_STOPPED)
        clock.advance(300)
    assert [status.revision for status in github.accepted] == commits[1:]
    github.rule = None
    await reporter.report(NEVER_STOPPED)
    assert [status.revision for status in github.accepted] == [*commits[1:], commits[0]]


@pytest.mark.both_databases
async def test_the_backoff_of_one_host_does_not_affect_others(
    pushed: Pushed, statuses: GitHubStatusClient, github: FakeGitHub, clock: Clock
) -> None:
    """Both kinds of hosts use the same client here."""
    managed = pushed.managed
    async with pushed.sessions() as session, session.begin():
        project = await create_project(session, managed.account, "Blog", "blog", NOW)
        target = await create_environment(session, project, "Production", "production", "production", NOW)
        url = "https://gitlab.com/acme/blog.git"
        repository = await connect_repository(session, project.id, "gitlab", url, "main", NOW)
        repository.full_name = "acme/blog"
    await pushed.push(status="failed")
    await pushed.push(
        status="succeeded", project_id=project.id, environment_id=target.id, repository_id=repository.id
    )
    github.responses.append(respond_with(500))
    reporter = Reporter(pushed.sessions, {"github": statuses, "gitlab": statuses}, clock=clock)
    await reporter.report(NEVER_STOPPED)
    assert [status.repository for status in github.accepted] == ["acme/blog"]


@pytest.mark.both_databases
async def test_no_transaction_is_open_during_a_request(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub
) -> None:
    number = await pushed.push()
    github.rule = held = DelayedResponse()
    round_ = asyncio.create_task(reporter.report(NEVER_STOPPED))
    await held.received.wait()
    # On SQLite an open transaction would block this write.
    await pushed.transition(number, "canceled")
    assert pushed.sessions.kw["bind"].pool.checkedout() == 0
    held.go.set()
    await round_
    assert await pushed.reported(number) == "pending"
    await reporter.report(NEVER_STOPPED)
    assert github.states() == ["pending", "error"]


async def test_the_end_is_repeated_after_a_slow_start_report(
    pushed: Pushed, statuses: GitHubStatusClient, github: FakeGitHub, clock: Clock
) -> None:
    """Another control plane reports the end meanwhile; the host receives the end again as the last status."""
    slow, other = (Reporter(pushed.sessions, {"github": statuses}, clock=clock) for _ in range(2))
    number = await pushed.push()
    held = DelayedResponse()
    github.responses.append(held)
    late = asyncio.create_task(slow.report(NEVER_STOPPED))
    await held.received.wait()
    await other.report(NEVER_STOPPED)
    await pushed.transition(number, "deploying", "running", "succeeded")
    await other.report(NEVER_STOPPED)
    assert github.states() == ["pending", "success"]
    held.go.set()
    await late
    assert github.states() == ["pending", "success", "pending"]
    for _ in range(2):
        await other.report(NEVER_STOPPED)
        await slow.report(NEVER_STOPPED)
    assert github.states() == ["pending", "success", "pending", "success"]
    assert await pushed.reported(number) == "success"


@pytest.mark.both_databases
async def test_a_slow_end_does_not_overwrite_a_newer_report(
    pushed: Pushed, statuses: GitHubStatusClient, github: FakeGitHub, clock: Clock
) -> None:
    slow, other = (Reporter(pushed.sessions, {"github": statuses}, clock=clock) for _ in range(2))
    number = await pushed.push(status="succeeded")
    held = DelayedResponse()
    github.responses.append(held)
    late = asyncio.create_task(slow.report(NEVER_STOPPED))
    await held.received.wait()
    await pushed.managed.change(Deployment, number, reported="refused")
    held.go.set()
    await late
    await other.report(NEVER_STOPPED)
    assert await pushed.reported(number) == "refused"


async def test_a_status_without_a_response_is_sent_again(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub, clock: Clock
) -> None:
    await pushed.push(status="failed")
    github.responses.append(cut_connection(accepted_by=github))
    await reporter.report(NEVER_STOPPED)
    clock.advance(timedelta(minutes=5).total_seconds())
    await reporter.report(NEVER_STOPPED)
    assert github.states() == ["failure", "failure"]


@pytest.mark.both_databases
async def test_a_preview_closed_after_a_lost_response_does_not_stay_pending(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub, clock: Clock
) -> None:
    target = await pushed.add_environment("pr-7", "preview")
    number = await pushed.push(status="deploying", environment_id=target.environment.id)
    github.responses.append(cut_connection(accepted_by=github))
    await reporter.report(NEVER_STOPPED)
    assert await pushed.reported(number) is None
    async with pushed.sessions() as session, session.begin():
        environment = await session.get_one(Environment, target.environment.id)
        await close_preview(session, DeployTarget(environment, target.project), Actor("a Git host"), NOW)
    clock.advance(timedelta(minutes=5).total_seconds())
    await reporter.report(NEVER_STOPPED)
    assert github.states() == ["pending", "error"]
    assert {status.context for status in github.accepted} == {"pharos/shop/pr-7"}


async def test_stop_ends_a_round_early(pushed: Pushed, reporter: Reporter, github: FakeGitHub) -> None:
    await pushed.push_finished(3)
    github.rule = held = DelayedResponse()
    stop = asyncio.Event()
    round_ = asyncio.create_task(reporter.report(stop))
    await held.received.wait()
    stop.set()
    held.go.set()
    await round_
    assert github.states() == ["success"]


@pytest.mark.both_databases
async def test_a_project_removed_during_the_request_is_no_error(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub
) -> None:
    number = await pushed.push()
    github.rule = held = DelayedResponse()
    round_ = asyncio.create_task(reporter.report(NEVER_STOPPED))
    await held.received.wait()
    async with pushed.sessions() as session, session.begin():
        await session.delete(await session.get_one(Deployment, number))
    held.go.set()
    await round_
    assert github.states() == ["pending"]
