"""Which commit statuses are due."""

from datetime import timedelta
from typing import Any

import pytest

from control_domain.audit import Actor
from control_domain.previews.operations import close_preview
from control_domain.projects.find import DeployTarget
from control_domain.removals.remove_environment import remove_environment
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment
from control_domain.tables.repositories import Repository
from control_domain.tables.runtime import EnvironmentLease
from control_workers.commit_statuses.find_unreported import Unreported, find_unreported
from control_workers.commit_statuses.report_deployments import store_reported
from git_hosts.commit_statuses import CommitStatus
from tests.control_workers.commit_statuses.conftest import Pushed
from tests.support.databases import recorded_statements
from tests.support.managed_project import NOW, REVISION
from tests.support.query_plans import explain_only_query

_DAY = timedelta(hours=24)


async def _find(pushed: Pushed, kinds: tuple[str, ...] = ("github",)) -> list[Unreported]:
    async with pushed.sessions() as session:
        return await find_unreported(session, kinds, NOW)


async def _numbers(pushed: Pushed) -> list[int]:
    return [one.deployment_id for one in await _find(pushed)]


@pytest.mark.parametrize(
    ("status", "state", "words"),
    [
        ("queued", "pending", "is not finished"),
        ("awaiting_approval", "pending", "is not finished"),
        ("deploying", "pending", "is not finished"),
        ("running", "pending", "is not finished"),
        ("succeeded", "success", "has succeeded"),
        ("failed", "failure", "has failed"),
        ("canceled", "error", "was canceled"),
        ("rejected", "error", "was rejected"),
    ],
)
@pytest.mark.parametrize("trigger", ["push", "pull_request"])
async def test_each_deployment_status_maps_to_a_host_state(
    pushed: Pushed, status: str, state: Any, words: str, trigger: str
) -> None:
    number = await pushed.push(status=status, trigger=trigger)
    expected = CommitStatus(
        "acme/shop", REVISION, state, "pharos/shop/production", f"Deployment {number} {words}."
    )
    assert await _find(pushed) == [Unreported(number, "github", None, False, expected)]


@pytest.mark.parametrize(("status", "address"), [("succeeded", "http://here:1"), ("failed", None)])
async def test_success_links_to_the_environment(pushed: Pushed, status: str, address: str | None) -> None:
    async with pushed.sessions() as session, session.begin():
        session.add(
            EnvironmentLease(
                environment_id=pushed.managed.environment.id,
                holder="dpl_1",
                holder_name="here",
                fence=1,
                leased_until=NOW,
                address="http://here:1",
            )
        )
    await pushed.push(status=status)
    assert [one.status.target_url for one in await _find(pushed)] == [address]


@pytest.mark.parametrize(
    "values",
    [
        {"trigger": "api"},
        {"trigger": "rollback"},
        {"trigger": "promotion"},
        {"revision": None},
        {"environment_id": None},
        {"created_at": NOW - _DAY},
        {"reported": "pending"},
        {"status": "succeeded", "reported": "success"},
        {"status": "failed", "reported": "failure"},
        {"status": "canceled", "reported": "error"},
        {"status": "succeeded", "reported": "refused"},
        {"reported": "refused"},
    ],
)
async def test_other_deployments_are_not_reported(pushed: Pushed, values: dict[str, Any]) -> None:
    await pushed.push(**values)
    assert await _find(pushed) == []


@pytest.mark.parametrize("values", [{"kind": "gitlab"}, {"kind": "git"}, {"full_name": None}])
async def test_repositories_on_unconfigured_hosts_are_not_reported(
    pushed: Pushed, values: dict[str, Any]
) -> None:
    await pushed.managed.change(Repository, pushed.managed.repository.id, **values)
    await pushed.push()
    assert await _find(pushed) == []


async def test_each_host_gets_only_its_own_repositories(pushed: Pushed) -> None:
    await pushed.managed.change(Repository, pushed.managed.repository.id, kind="gitlab")
    await pushed.push()
    assert [one.kind for one in await _find(pushed, ("github", "gitlab"))] == ["gitlab"]
    assert await _find(pushed, ("github",)) == []


async def test_end_is_reported_at_any_time_after_a_reported_start(pushed: Pushed) -> None:
    old = NOW - 30 * _DAY
    number = await pushed.push(status="succeeded", reported="pending", created_at=old)
    assert await _numbers(pushed) == [number]


async def test_unreported_deployments_are_due_for_a_day(pushed: Pushed) -> None:
    number = await pushed.push(created_at=NOW - _DAY + timedelta(seconds=1))
    assert await _numbers(pushed) == [number]


async def test_deployments_of_a_removed_environment_are_not_started(pushed: Pushed) -> None:
    await pushed.push(status="succeeded")
    target = pushed.managed.target
    async with pushed.sessions() as session, session.begin():
        environment = await session.get_one(Environment, target.environment.id)
        await remove_environment(
            session, DeployTarget(environment, target.project), Actor("operator kim"), NOW
        )
    assert await _find(pushed) == []


@pytest.mark.both_databases
async def test_the_end_is_reported_after_the_environment_was_removed(pushed: Pushed) -> None:
    """For example if a preview closes during its build: otherwise the host would show `pending` forever."""
    target = await pushed.add_environment("pr-7", "preview")
    number = await pushed.push(status="deploying", environment_id=target.environment.id)
    (begun,) = await _find(pushed)
    await store_reported(pushed.sessions, begun, "pending", NOW)
    async with pushed.sessions() as session, session.begin():
        environment = await session.get_one(Environment, target.environment.id)
        actor = Actor("webhook of repository 1")
        await close_preview(session, DeployTarget(environment, target.project), actor, NOW)
    (ended,) = await _find(pushed)
    assert (ended.status.context, ended.status.state) == ("pharos/shop/pr-7", "error")
    await store_reported(pushed.sessions, ended, "error", NOW)
    assert await _find(pushed) == []
    assert await pushed.reported(number) == "error"


async def test_the_end_uses_the_context_of_the_start(pushed: Pushed) -> None:
    number = await pushed.push(status="deploying")
    (begun,) = await _find(pushed)
    await store_reported(pushed.sessions, begun, "pending", NOW)
    await pushed.managed.change(Environment, pushed.managed.environment.id, slug="live")
    await pushed.transition(number, "failed")
    assert [one.status.context for one in await _find(pushed)] == ["pharos/shop/production"]


async def test_only_the_newest_deployment_of_a_commit_is_reported(pushed: Pushed) -> None:
    """The host shows one status per commit and environment: the older one would overwrite the current one."""
    older = await pushed.push(status="failed", reported="pending")
    newer = await pushed.push(status="succeeded")
    assert await _numbers(pushed) == [newer]
    await pushed.managed.change(Deployment, newer, reported="success")
    assert await _numbers(pushed) == []
    assert await pushed.reported(older) == "pending"


async def test_other_commits_and_environments_are_reported_separately(pushed: Pushed) -> None:
    staging = (await pushed.add_environment("staging")).environment.id
    numbers = [
        await pushed.push(status="succeeded"),
        await pushed.push(status="succeeded", revision="f" * 40),
        await pushed.push(status="succeeded", environment_id=staging),
    ]
    found = await _find(pushed)
    assert [one.deployment_id for one in found] == numbers
    contexts = ["pharos/shop/production", "pharos/shop/production", "pharos/shop/staging"]
    assert [one.status.context for one in found] == contexts


async def test_at_most_twenty_are_returned_oldest_first(pushed: Pushed) -> None:
    commits = await pushed.push_finished(25)
    assert [one.status.revision for one in await _find(pushed)] == commits[:20]


async def test_one_statement_suffices_for_any_number(pushed: Pushed) -> None:
    engine = pushed.sessions.kw["bind"]
    counts = []
    for count in (0, 1, 19):
        for number in range(count):
            await pushed.push(status="succeeded", revision=f"{count:020x}{number:020x}")
        with recorded_statements(engine) as seen:
            found = await _find(pushed)
        counts.append((len(found), len(seen)))
    assert counts == [(0, 1), (1, 1), (20, 1)]


# Each database has its own query planner.
@pytest.mark.both_databases
async def test_the_query_uses_an_index(pushed: Pushed) -> None:
    """The query runs every few seconds on a table of all deployments ever."""
    plan = await explain_only_query(pushed.sessions, lambda: _find(pushed))
    assert plan.count("ix_deployments_reported") == 2, plan
    assert "SCAN" not in plan, plan
