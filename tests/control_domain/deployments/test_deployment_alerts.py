"""Alert events of deployments, in the transactions of their changes."""

import json
from typing import Any

import pytest
from sqlalchemy import select, update

from control_domain.deployments.queue_deployment import DeploymentRequest, queue_deployment
from control_domain.deployments.transitions import add_log_line, transition_deployment
from control_domain.tables.deployments import Deployment, LiveRelease, Release
from control_domain.tables.notifications import AlertEvent
from control_domain.tables.projects import Environment
from control_domain.tables.runtime import EnvironmentLease
from pipeline_contracts.deploy_states import DeploymentStatus
from tests.support.managed_project import NOW, REVISION, ManagedProject

FAILED, SUCCEEDED = ["deploying", "failed"], ["deploying", "running", "succeeded"]
CASES: list[tuple[bool, list[str], list[tuple[str, str]]]] = [
    # Whether the environment has a gate, the statuses after the first one, and the kinds and states of the events.
    (False, FAILED, [("deployment.failed", "firing")]),
    (False, SUCCEEDED, [("deployment.failed", "resolved"), ("deployment.succeeded", "info")]),
    (False, ["canceled"], []),
    (True, [], [("deployment.awaiting_approval", "firing")]),
    (True, ["rejected"], [("deployment.awaiting_approval", state) for state in ("firing", "resolved")]),
    (True, ["canceled"], [("deployment.awaiting_approval", state) for state in ("firing", "resolved")]),
    (
        True,
        ["queued", "awaiting_approval", "queued", *FAILED],
        [
            *[("deployment.awaiting_approval", state) for state in ("firing", "resolved") * 2],
            ("deployment.failed", "firing"),
        ],
    ),
]


async def _queue(managed: ManagedProject, *statuses: str, reason: str = "The build failed.") -> int:
    async with managed.engines.sessions() as session, session.begin():
        target = await managed.read_target(session)
        request = DeploymentRequest("api", revision=REVISION, ref="main")
        deployment = await queue_deployment(session, target, request, managed.actor(), NOW)
        number = deployment.id
    for status in statuses:
        async with managed.engines.sessions() as session, session.begin():
            deployment = await session.get_one(Deployment, number)
            add_log_line(session, number, reason, NOW)
            await session.flush()
            await transition_deployment(session, deployment, DeploymentStatus(status), NOW)
    return number


async def _take_events(managed: ManagedProject, after: int) -> list[AlertEvent]:
    async with managed.engines.sessions() as session:
        query = select(AlertEvent).where(AlertEvent.id > after).order_by(AlertEvent.id)
        return list((await session.execute(query)).scalars())


async def test_events_of_each_way_of_a_deployment(managed: ManagedProject) -> None:
    last = 0
    for gate, statuses, expected in CASES:
        await managed.change_settings(managed.environment.public_id, deploys_need_approval=gate)
        number = await _queue(managed, *statuses)
        events = await _take_events(managed, last)
        last = events[-1].id if events else last
        assert [(event.kind, event.state) for event in events] == expected, (gate, statuses)
        subjects = {
            "failed": "environment",
            "awaiting_approval": f"approval {number}",
            "succeeded": f"succeeded {number}",
        }
        assert [event.subject for event in events] == [subjects[event.kind.split(".")[1]] for event in events]
        assert {event.environment_id for event in events} <= {managed.environment.id}
        if statuses[-1:] == ["failed"]:
            facts = json.loads(events[-1].facts)
            known = {"number": number, "revision": REVISION, "ref": "main", "reason": "The build failed."}
            assert {**facts, **known, "asked_by": "Owner", "environment": "shop/production"} == facts
        if statuses in ([], ["queued"]):
            async with managed.engines.sessions() as session, session.begin():
                await transition_deployment(
                    session, await session.get_one(Deployment, number), DeploymentStatus.CANCELED, NOW
                )
            last = (await _take_events(managed, last))[-1].id


@pytest.mark.parametrize("reason", ["x" * 5000, "\ud800\x07 broken"])
async def test_no_text_and_no_removed_environment_stops_a_deployment(
    managed: ManagedProject, reason: str
) -> None:
    number = await _queue(managed, "deploying")
    async with managed.engines.sessions() as session, session.begin():
        add_log_line(session, number, reason.encode(errors="replace").decode(), NOW)
        await session.flush()
        await session.execute(update(Deployment).where(Deployment.id == number).values(environment_id=None))
        deployment = await session.get_one(Deployment, number)
        await transition_deployment(session, deployment, DeploymentStatus.FAILED, NOW)
    assert await _take_events(managed, 0) == []
    other = await _queue(managed, *FAILED, reason=reason.encode(errors="replace").decode())
    (event,) = await _take_events(managed, 0)
    facts: dict[str, Any] = json.loads(event.facts)
    assert (facts["number"], len(facts["reason"]) <= 500) == (other, True)


async def test_a_preview_is_ready_at_its_address(managed: ManagedProject) -> None:
    async with managed.engines.sessions() as session, session.begin():
        number = managed.environment.id
        await session.execute(update(Environment).where(Environment.id == number).values(type="preview"))
        session.add(
            EnvironmentLease(
                environment_id=number,
                holder="d1",
                holder_name="here",
                fence=1,
                leased_until=NOW,
                address="http://p1.shop.localhost",
            )
        )
    deployment = await _queue(managed, *SUCCEEDED)
    events = await _take_events(managed, 0)
    assert [(event.kind, event.subject) for event in events][-1] == ("preview.ready", f"ready {deployment}")
    assert json.loads(events[-1].facts)["address"] == "http://p1.shop.localhost"
    # A failure of a preview causes no urgent alert.
    await _queue(managed, *FAILED)
    (failed,) = await _take_events(managed, events[-1].id)
    severities = [json.loads(event.facts).get("severity") for event in (failed, *events)]
    assert (failed.kind, severities) == ("deployment.failed", ["warning", *[None] * len(events)])


async def test_a_failure_while_the_former_release_serves_is_a_warning(managed: ManagedProject) -> None:
    await _queue(managed, *FAILED)
    (first,) = await _take_events(managed, 0)
    assert "severity" not in json.loads(first.facts)
    built = await _queue(managed, *SUCCEEDED)
    number = managed.environment.id
    async with managed.engines.sessions() as session, session.begin():
        release = Release(
            environment_id=number, deployment_id=built, revision=REVISION, artefact="a", created_at=NOW
        )
        session.add(release)
        await session.flush()
        session.add(LiveRelease(environment_id=number, release_id=release.id, since=NOW))
    last = (await _take_events(managed, first.id))[-1].id
    await _queue(managed, *FAILED)
    (second,) = await _take_events(managed, last)
    assert (second.kind, json.loads(second.facts)["severity"]) == ("deployment.failed", "warning")
