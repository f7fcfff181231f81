"""Each state of a deployment goes to its host once, whatever goes away meanwhile."""

import asyncio
import logging
from datetime import timedelta

import pytest
from aiohttp import web

from control_domain.accounts.operations import create_account
from control_domain.audit import Actor
from control_domain.previews import close_preview
from control_domain.projects.find import Place
from control_domain.projects.operations import create_environment, create_project
from control_domain.repositories.operations import connect_repository
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment
from control_workers.commit_statuses.report_deployments import Reporter
from git_hosts.github.commit_statuses import GitHubStatusClient
from pipeline_contracts.rate_limits import RateLimit
from tests.control_workers.commit_statuses.conftest import Clock, Pushed
from tests.control_workers.commit_statuses.fake_github import (
    TOKEN,
    FakeGitHub,
    Held,
    Told,
    answer,
    cut_connection,
)
from tests.support.operated import NOW, REVISION
from tests.support.statements import noted_statements

_LOGGER = "control_workers.commit_statuses"
GO_ON = asyncio.Event()


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
async def test_each_state_goes_out_once(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub, path: tuple[str, ...], end: str
) -> None:
    number = await pushed.push()
    await reporter.report(GO_ON)
    for status in path:
        assert await pushed.reported(number) == "pending"
        await pushed.move(number, status)
        await reporter.report(GO_ON)
        await reporter.report(GO_ON)
    assert github.states() == ["pending", end]
    assert await pushed.reported(number) == end
    assert {told.context for told in github.told} == {"pharos/shop/production"}


async def test_a_restart_tells_nothing_twice(
    pushed: Pushed, statuses: GitHubStatusClient, github: FakeGitHub, clock: Clock
) -> None:
    number = await pushed.push()
    for status in (None, "deploying", "running", "succeeded", None):
        if status is not None:
            await pushed.move(number, status)
        await Reporter(pushed.sessions, {"github": statuses}, clock=clock).report(GO_ON)
    assert github.states() == ["pending", "success"]


async def test_what_ended_unseen_is_told_at_its_end(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub
) -> None:
    number = await pushed.push()
    await pushed.move(number, "deploying", "failed")
    await reporter.report(GO_ON)
    assert github.states() == ["failure"]


async def test_many_go_out_twenty_a_round_the_oldest_first(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub
) -> None:
    commits = await pushed.push_finished(25)
    await reporter.report(GO_ON)
    assert [told.revision for told in github.told] == commits[:20]
    await reporter.report(GO_ON)
    assert [told.revision for told in github.told] == commits


async def test_a_repository_of_another_account_is_told_of_its_own(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub
) -> None:
    async with pushed.sessions() as session, session.begin():
        account = await create_account(session, "Third", "third", RateLimit(10, 20), NOW)
        project = await create_project(session, account, "Shop", "shop", NOW)
        place = await create_environment(session, project, "Production", "production", "production", NOW)
        url = "https://github.com/third/shop.git"
        repository = await connect_repository(session, project.id, "github", url, "main", NOW)
        repository.full_name = "third/shop"
    theirs = {"account_id": account.id, "project_id": project.id, "environment_id": place.id}
    await pushed.push(status="failed")
    await pushed.push(status="succeeded", repository_id=repository.id, **theirs)
    await reporter.report(GO_ON)
    told = [(told.repository, told.revision, told.state) for told in github.told]
    assert told == [("acme/shop", REVISION, "failure"), ("third/shop", REVISION, "success")]


@pytest.mark.parametrize("status", [401, 403, 404, 422])
async def test_a_refused_one_is_not_repeated(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    number = await pushed.push()
    github.rule = answer(status, {"message": "Not so"})
    with caplog.at_level(logging.DEBUG, _LOGGER):
        await reporter.report(GO_ON)
        await pushed.move(number, "deploying", "running", "succeeded")
        await reporter.report(GO_ON)
    assert len(github.paths) == 1
    assert await pushed.reported(number) == "refused"
    (record,) = (record for record in caplog.records if record.name.startswith(_LOGGER))
    assert record.getMessage().startswith(
        f"github is not told of deployment {number}: GitHub answers {status}"
    )
    assert TOKEN not in caplog.text


async def test_a_refused_one_holds_no_other_up(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub
) -> None:
    commits = await pushed.push_finished(3)
    github.answers.append(answer(404))
    await reporter.report(GO_ON)
    assert [told.revision for told in github.told] == commits[1:]


async def test_a_host_that_is_away_is_left_alone_longer_and_longer(
    pushed: Pushed,
    reporter: Reporter,
    github: FakeGitHub,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await pushed.push_finished(2)
    github.rule = answer(502)
    for asked, pause in enumerate([2, 4, 8, 16, 32, 64, 128, 256, 300, 300], 1):
        await reporter.report(GO_ON)
        clock.turn(pause - 1)
        await reporter.report(GO_ON)
        assert len(github.paths) == asked
        clock.turn(1)
    github.rule = None
    await reporter.report(GO_ON)
    assert github.states() == ["success", "success"]
    told = "github is told of deployments later: GitHub answers 502."
    assert [record.getMessage() for record in caplog.records if record.name.startswith(_LOGGER)] == [told]


async def test_a_host_that_is_back_has_its_first_pause_again(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub, clock: Clock
) -> None:
    number = await pushed.push()
    for _ in range(5):
        github.answers.append(answer(500))
        await reporter.report(GO_ON)
        clock.turn(300)
    await reporter.report(GO_ON)
    await pushed.move(number, "canceled")
    github.answers.append(answer(500))
    await reporter.report(GO_ON)
    clock.turn(2)
    await reporter.report(GO_ON)
    assert github.states() == ["pending", "error"]


@pytest.mark.parametrize(("wanted", "seconds"), [("120", 120), ("1", 2), ("9" * 400, 3600)])
async def test_a_host_that_limits_is_left_alone_as_long_as_it_says(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub, clock: Clock, wanted: str, seconds: int
) -> None:
    await pushed.push_finished(2)
    github.answers.append(answer(403, Retry_After=wanted))
    await reporter.report(GO_ON)
    clock.turn(seconds - 1)
    await reporter.report(GO_ON)
    assert len(github.paths) == 1
    clock.turn(1)
    await reporter.report(GO_ON)
    assert github.states() == ["success", "success"]


async def test_while_its_host_is_left_alone_the_database_is_not_asked(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub
) -> None:
    await pushed.push()
    github.answers.append(answer(500))
    await reporter.report(GO_ON)
    with noted_statements(pushed.sessions.kw["bind"]) as seen:
        await reporter.report(GO_ON)
    assert seen == []


async def test_one_that_never_goes_out_holds_no_other_up(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub, clock: Clock
) -> None:
    commits = await pushed.push_finished(4)

    async def fail(request: web.Request, told: Told) -> web.StreamResponse | None:
        return web.Response(status=500) if told.revision == commits[0] else None

    github.rule = fail
    for _ in range(3):
        await reporter.report(GO_ON)
        clock.turn(300)
    assert [told.revision for told in github.told] == commits[1:]
    github.rule = None
    await reporter.report(GO_ON)
    assert [told.revision for told in github.told] == [*commits[1:], commits[0]]


@pytest.mark.both_databases
async def test_other_hosts_are_told_meanwhile(
    pushed: Pushed, statuses: GitHubStatusClient, github: FakeGitHub, clock: Clock
) -> None:
    """Of another host's kind, spoken to by the same adapter."""
    operated = pushed.operated
    async with pushed.sessions() as session, session.begin():
        project = await create_project(session, operated.account, "Blog", "blog", NOW)
        place = await create_environment(session, project, "Production", "production", "production", NOW)
        url = "https://gitlab.com/acme/blog.git"
        repository = await connect_repository(session, project.id, "gitlab", url, "main", NOW)
        repository.full_name = "acme/blog"
    await pushed.push(status="failed")
    await pushed.push(
        status="succeeded", project_id=project.id, environment_id=place.id, repository_id=repository.id
    )
    github.answers.append(answer(500))
    reporter = Reporter(pushed.sessions, {"github": statuses, "gitlab": statuses}, clock=clock)
    await reporter.report(GO_ON)
    assert [told.repository for told in github.told] == ["acme/blog"]


@pytest.mark.both_databases
async def test_no_transaction_is_open_while_a_host_is_told(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub
) -> None:
    number = await pushed.push()
    github.rule = held = Held()
    round_ = asyncio.create_task(reporter.report(GO_ON))
    await held.come.wait()
    # On SQLite nobody else could write.
    await pushed.move(number, "canceled")
    assert pushed.sessions.kw["bind"].pool.checkedout() == 0
    held.go.set()
    await round_
    assert await pushed.reported(number) == "pending"
    await reporter.report(GO_ON)
    assert github.states() == ["pending", "error"]


async def test_a_beginning_that_was_slow_does_not_stay_behind_the_end(
    pushed: Pushed, statuses: GitHubStatusClient, github: FakeGitHub, clock: Clock
) -> None:
    """Another control plane tells the end meanwhile; what the host gets last is right all the same."""
    slow, other = (Reporter(pushed.sessions, {"github": statuses}, clock=clock) for _ in range(2))
    number = await pushed.push()
    held = Held()
    github.answers.append(held)
    late = asyncio.create_task(slow.report(GO_ON))
    await held.come.wait()
    await other.report(GO_ON)
    await pushed.move(number, "deploying", "running", "succeeded")
    await other.report(GO_ON)
    assert github.states() == ["pending", "success"]
    held.go.set()
    await late
    assert github.states() == ["pending", "success", "pending"]
    for _ in range(2):
        await other.report(GO_ON)
        await slow.report(GO_ON)
    assert github.states() == ["pending", "success", "pending", "success"]
    assert await pushed.reported(number) == "success"


@pytest.mark.both_databases
async def test_an_end_that_was_slow_hides_nothing(
    pushed: Pushed, statuses: GitHubStatusClient, github: FakeGitHub, clock: Clock
) -> None:
    slow, other = (Reporter(pushed.sessions, {"github": statuses}, clock=clock) for _ in range(2))
    number = await pushed.push(status="succeeded")
    held = Held()
    github.answers.append(held)
    late = asyncio.create_task(slow.report(GO_ON))
    await held.come.wait()
    await pushed.operated.change(Deployment, number, reported="refused")
    held.go.set()
    await late
    await other.report(GO_ON)
    assert await pushed.reported(number) == "refused"


async def test_what_was_taken_without_an_answer_is_told_again(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub, clock: Clock
) -> None:
    await pushed.push(status="failed")
    github.answers.append(cut_connection(taken_by=github))
    await reporter.report(GO_ON)
    clock.turn(timedelta(minutes=5).total_seconds())
    await reporter.report(GO_ON)
    assert github.states() == ["failure", "failure"]


@pytest.mark.both_databases
async def test_a_preview_that_closes_after_an_answer_was_lost_does_not_stay_pending(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub, clock: Clock
) -> None:
    place = await pushed.add_environment("pr-7", "preview")
    number = await pushed.push(status="deploying", environment_id=place.environment.id)
    github.answers.append(cut_connection(taken_by=github))
    await reporter.report(GO_ON)
    assert await pushed.reported(number) is None
    async with pushed.sessions() as session, session.begin():
        environment = await session.get_one(Environment, place.environment.id)
        await close_preview(session, Place(environment, place.project), Actor("a Git host"), NOW)
    clock.turn(timedelta(minutes=5).total_seconds())
    await reporter.report(GO_ON)
    assert github.states() == ["pending", "error"]
    assert {told.context for told in github.told} == {"pharos/shop/pr-7"}


async def test_a_round_ends_early_when_it_has_to_stop(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub
) -> None:
    await pushed.push_finished(3)
    github.rule = held = Held()
    stop = asyncio.Event()
    round_ = asyncio.create_task(reporter.report(stop))
    await held.come.wait()
    stop.set()
    held.go.set()
    await round_
    assert github.states() == ["success"]


@pytest.mark.both_databases
async def test_a_project_that_is_removed_meanwhile_is_no_fault(
    pushed: Pushed, reporter: Reporter, github: FakeGitHub
) -> None:
    number = await pushed.push()
    github.rule = held = Held()
    round_ = asyncio.create_task(reporter.report(GO_ON))
    await held.come.wait()
    async with pushed.sessions() as session, session.begin():
        await session.delete(await session.get_one(Deployment, number))
    held.go.set()
    await round_
    assert github.states() == ["pending"]
