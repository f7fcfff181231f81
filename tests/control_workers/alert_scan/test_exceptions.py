"""New groups of exceptions, regressions, and spikes."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from msgspec import UNSET

from control_domain.audit import Actor
from control_domain.projects.find import DeployTarget
from control_domain.telemetry.statuses import change_status, lock_status
from tests.support.alert_scans import ScanUnderTest


def _exceptions(
    scan: ScanUnderTest, message: str, *, seconds: float, stored: float, count: int = 1, **members: Any
) -> list[dict[str, Any]]:
    """Return rows of exceptions with their ages in seconds: since they occurred, and since they were stored."""
    return [
        {
            "environment_id": scan.acme.environment.public_id,
            "timestamp": scan.ago(seconds),
            "received_at": scan.ago(seconds),
            "stored_at": scan.ago(stored),
            "source": "event",
            "service": "api",
            "kind": "ValueError",
            "message": message,
            "identity": hash((message, seconds, number)) % 2**63,
            **members,
        }
        for number in range(count)
    ]


def _history(scan: ScanUnderTest, message: str, count: int) -> Iterator[dict[str, Any]]:
    """Yield this many exceptions in each ten minutes of the last day, except the last ten minutes."""
    for seconds in range(700, 86_000, 600):
        yield from _exceptions(scan, message, seconds=seconds, stored=seconds, count=count)


async def _decide(scan: ScanUnderTest, group: str, status: Any) -> None:
    acme = scan.acme
    target = DeployTarget(acme.environment, acme.project)
    async with scan.sessions() as session, session.begin():
        row = await lock_status(session, target, group, scan.now)
        await change_status(
            session,
            target,
            row,
            status=status,
            shown_status="open",
            assignee=UNSET,
            actor=Actor("test"),
            now=scan.now,
        )


@pytest.mark.both_databases
async def test_new_groups_and_their_end(scan: ScanUnderTest) -> None:
    await scan.insert("exceptions", *_exceptions(scan, "old", seconds=3600, stored=3600))
    # Groups that were stored before the first scan are not new.
    assert await scan.run() == []

    await scan.insert(
        "exceptions",
        *_exceptions(scan, "old", seconds=5, stored=5),
        *_exceptions(scan, "fresh", seconds=5, stored=5, count=3),
        # It occurred before the last scan, but no scan has seen it.
        *_exceptions(scan, "late", seconds=7200, stored=5),
    )
    events = await scan.run_for_events(30)
    assert {(event.kind, event.state) for event in events} == {("exception.new", "firing")}
    facts = {json.loads(event.facts)["message"]: json.loads(event.facts) for event in events}
    assert sorted(facts) == ["fresh", "late"]
    assert facts["fresh"]["count"] == 3
    assert await scan.run(30) == []

    group = facts["fresh"]["group"]
    await _decide(scan, group, "resolved")
    ended = [(event.kind, event.subject, event.state) for event in await scan.take_events()]
    assert ended == [
        ("exception.new", group, "resolved"),
        ("exception.spike", f"spike {group}", "resolved"),
    ]

    # Without a deployment, each exception after the decision is a regression, which is reported once.
    found = []
    for _ in range(2):
        scan.now += timedelta(seconds=30)
        await scan.insert("exceptions", *_exceptions(scan, "fresh", seconds=15, stored=15))
        found.append(await scan.run())
    assert found == [[("exception.regressed", group, "firing")], []]

    # A query that fails is repeated by the next scan, for the same time.
    await scan.insert("exceptions", *_exceptions(scan, "meanwhile", seconds=5, stored=5))
    scan.store.failing = ("sample_frame",)
    assert await scan.run(30) == []
    scan.store.failing = ()
    assert [kind for kind, *_ in await scan.run(30)] == ["exception.new"]


async def test_many_new_groups(scan: ScanUnderTest) -> None:
    await scan.run()
    rows = [
        row
        for n in range(53)
        for row in _exceptions(scan, f"fault {chr(65 + n % 26)}{chr(65 + n // 26)}", seconds=5, stored=5)
    ]
    await scan.insert("exceptions", *rows)
    events = await scan.run(30)
    assert [state for *_, state in events].count("firing") == 50
    assert events[-1] == ("exception.new", "more", "info")


async def test_spikes(scan: ScanUnderTest) -> None:
    """100 exceptions in ten minutes are a spike for a group with usually 2, and no spike for a group with 30."""
    await scan.insert(
        "exceptions",
        *(
            row
            for n in range(140)
            for row in _exceptions(scan, "rare", seconds=700 + 600 * n, stored=700 + 600 * n, count=2)
        ),
        *(
            row
            for n in range(140)
            for row in _exceptions(scan, "usual", seconds=700 + 600 * n, stored=700 + 600 * n, count=30)
        ),
        *_exceptions(scan, "rare", seconds=60, stored=60, count=100),
        *_exceptions(scan, "usual", seconds=60, stored=60, count=100),
        # The usual number is unknown.
        *_exceptions(scan, "new", seconds=60, stored=60, count=100),
        *_exceptions(scan, "rarest", seconds=4000, stored=4000),
        *_exceptions(scan, "rarest", seconds=60, stored=60, count=19),
    )
    (event,) = await scan.run_for_events()
    facts = json.loads(event.facts)
    group = facts["group"]
    assert (event.kind, event.subject, event.state) == ("exception.spike", f"spike {group}", "firing")
    assert (facts["message"], facts["value"], facts["threshold"]) == ("rare", 100, 20)
    assert 1.5 < facts["usual"] < 2.5

    scan.store.failing = ("HAVING count()",)
    assert await scan.run(700) == []
    scan.store.failing = ()
    assert await scan.run(30) == [("exception.spike", f"spike {group}", "resolved")]
