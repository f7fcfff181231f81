"""Crash loops of processes: when they begin and end, and the events in the transaction of the instances."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import select, update

from control_domain.tables.deployments import LiveRelease, Release
from control_domain.tables.notifications import AlertEvent, AlertState
from control_domain.tables.projects import Environment
from deployer.drivers.interface import InstanceStatus
from deployer.environments.crash_loops import CrashHistory, count_restarts, judge_crashes
from deployer.environments.write_instances import write_instances
from deployer.identity import Identity
from deployer.leases import take_lease
from tests.support.deploy_platform import Platform

NOW = datetime(2026, 11, 26, 3, tzinfo=UTC)
WEB = InstanceStatus(7, "web", 1, "running", 8000, 1, 0, None, None)
# Each step: seconds since the begin, (deployment, number, state, new restarts) of each instance, and the change.
Step = tuple[int, list[tuple[int, int, str, int]], str | None]
STEPS: dict[str, list[Step]] = {
    "three restarts within five minutes": [
        (0, [(7, 1, "waiting", 1)], None),
        (100, [(7, 1, "running", 1)], None),
        (299, [(7, 1, "waiting", 1)], "begins"),
        (310, [(7, 1, "waiting", 1)], None),
        (400, [(7, 1, "running", 0)], None),
        (609, [(7, 1, "running", 0)], None),
        (611, [(7, 1, "running", 0)], "stable"),
        (700, [(7, 1, "waiting", 1)], None),
    ],
    "too slow for a loop": [(at, [(7, 1, "waiting", 1)], None) for at in (0, 150, 301, 451, 602)],
    "replicas are counted one by one": [(0, [(7, number, "waiting", 1) for number in (1, 2, 3)], None)],
    "a process that waits is not stable": [
        (0, [(7, 1, "waiting", 3)], "begins"),
        (900, [(7, 1, "waiting", 0)], None),
        (901, [(7, 1, "running", 0)], "stable"),
    ],
    "replaced": [(0, [(7, 1, "waiting", 3)], "begins"), (9, [(8, 1, "running", 0)], "replaced")],
    "stopped": [(0, [(7, 1, "waiting", 3)], "begins"), (9, [], "stopped"), (10, [], None)],
}


def test_when_a_crash_loop_begins_and_ends() -> None:
    for case, steps in STEPS.items():
        history = CrashHistory()
        for seconds, instances, change in steps:
            found = [
                (replace(WEB, deployment_id=deployment, number=number, state=state), restarts)
                for deployment, number, state, restarts in instances
            ]
            assert judge_crashes(history, found, 1000 * seconds) == change, (case, seconds)


def test_restarts_since_the_last_write() -> None:
    # Before, now, and the difference: a new deployer counts from zero.
    for before, now, expected in ((None, 0, 0), (2, 3, 1), (5, 5, 0), (5, 1, 1)):
        assert count_restarts(before, replace(WEB, restarts=now)) == expected


async def test_crash_loops_are_recorded_with_the_instances(platform: Platform) -> None:
    environment = platform.acme.environment("shop/production")
    live = platform.acme.deployments["production"].id
    async with platform.sessions() as session, session.begin():
        release = (
            await session.execute(select(Release.id).where(Release.deployment_id == live))
        ).scalar_one()
        session.add(
            LiveRelease(environment_id=environment.id, release_id=release, deployment_id=live, since=NOW)
        )
    lease = await take_lease(
        platform.sessions, Identity("dpl_test", "here", 1, Path("/nowhere")), environment.id, "http://here"
    )
    assert lease is not None
    web = replace(WEB, deployment_id=live, state="waiting", last_exit="exited with status 1")
    other = replace(web, deployment_id=live + 1, restarts=9)

    async def write(seconds: int, *instances: InstanceStatus) -> bool:
        return await write_instances(platform.sessions, lease, instances, NOW + timedelta(seconds=seconds))

    assert not await write(0, replace(web, restarts=0), other)
    assert await write(10, replace(web, restarts=2), other)
    assert await write(20, replace(web, restarts=3), other)
    assert await write(30, replace(web, restarts=4, state="running"))
    assert not await write(400, replace(web, restarts=4, state="running"))
    async with platform.sessions() as session:
        events = (await session.execute(select(AlertEvent).order_by(AlertEvent.id))).scalars().all()
        assert (await session.execute(select(AlertState))).first() is None
    found = [event for event in events if event.kind == "process.crash_loop"]
    assert [(event.subject, event.state, event.environment_id) for event in found] == [
        ("web", "firing", environment.id),
        ("web", "resolved", environment.id),
    ]
    begun, ended = (json.loads(event.facts) for event in found)
    assert (begun["restarts"], begun["last_exit"], begun["deployment"]) == (3, "exited with status 1", live)
    assert (begun["environment"], ended["reason"]) == ("shop/production", "stable")
    assert "severity" not in begun
    # A crash of a preview causes no urgent alert.
    async with platform.sessions() as session, session.begin():
        preview = update(Environment).where(Environment.id == environment.id).values(type="preview")
        await session.execute(preview)
    assert await write(500, replace(web, restarts=7))
    async with platform.sessions() as session:
        newest = select(AlertEvent).order_by(AlertEvent.id.desc()).limit(1)
        event = (await session.execute(newest)).scalar_one()
    assert (event.state, json.loads(event.facts)["severity"]) == ("firing", "warning")
