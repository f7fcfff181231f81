"""Alert events of heartbeats and gaps of Pharos' own, on SQLite and on Postgres."""

import json
from typing import Any

import pytest

from pipeline_contracts.blind_times import INTAKE_CLOCK, SCAN_CLOCK
from tests.contract.test_monitor_states_contract import passing, taking
from tests.support.monitored import HOUR, MINUTE, T0, Monitored

pytestmark = pytest.mark.both_databases

DAY = 24 * HOUR
# A step: what happens, with its arguments.
Step = tuple[Any, ...]


async def _play(monitored: Monitored, heartbeat: int, steps: list[Step]) -> None:
    for step in steps:
        monitored.changes.is_due()
        before = await _events(monitored)
        match step:
            case ("scan", at_ms):
                await monitored.states.change_due(at_ms, 100, passing(at_ms))
            case ("alive", at_ms):
                await monitored.states.keep_clock(SCAN_CLOCK, at_ms)
            case (signal, at_ms):
                await monitored.states.change(*taking((heartbeat, f"run {at_ms}", signal, at_ms)), None)
        # The worker of incidents reads the database only after a change.
        assert await _events(monitored) == before or monitored.changes.is_due()


async def _events(monitored: Monitored) -> list[tuple[str, str, str]]:
    rows = await monitored.rows("SELECT kind, subject, state FROM alert_events ORDER BY id")
    return [(row["kind"], row["subject"], row["state"]) for row in rows]


LATE, DOWN = T0 + HOUR, T0 + HOUR + 5 * MINUTE
EVENTS: dict[str, tuple[dict[str, int], list[Step], list[tuple[str, str]]]] = {
    "late, down, and up again": (
        {},
        [
            ("success", T0),
            ("scan", LATE),
            ("scan", DOWN),
            ("scan", DOWN + HOUR),
            ("success", DOWN + 2 * HOUR),
        ],
        [("heartbeat.late", "firing"), ("heartbeat.down", "firing"), ("heartbeat.down", "resolved")],
    ),
    "both deadlines in one scan are one event": (
        {},
        [("success", T0), ("scan", DOWN)],
        [("heartbeat.down", "firing")],
    ),
    "a late run that starts": (
        {},
        [("success", T0), ("scan", LATE), ("start", LATE + 1)],
        [("heartbeat.late", "firing"), ("heartbeat.late", "resolved")],
    ),
    "only a success ends down": (
        {},
        [("failure", T0), ("failure", T0 + 1), ("start", T0 + 2), ("success", T0 + 3)],
        [("heartbeat.down", "firing"), ("heartbeat.down", "resolved")],
    ),
    "late for several runs is one event": (
        {"failures_before_down": 3},
        [("success", T0), ("scan", LATE), ("scan", DOWN), ("scan", DOWN + HOUR)],
        [("heartbeat.late", "firing")],
    ),
}


async def test_events_of_changes_of_a_heartbeat(monitored: Monitored) -> None:
    for case, (settings, steps, expected) in EVENTS.items():
        (heartbeat,) = await monitored.add_heartbeats(1, name=case, **settings)
        before = len(await _events(monitored))
        await _play(monitored, heartbeat, steps)
        found = (await _events(monitored))[before:]
        assert found == [(kind, str(heartbeat), state) for kind, state in expected], case
        await monitored.states.change(*taking((heartbeat, "end", "success", T0 + DAY)), None)


async def test_an_event_names_its_environment_and_the_cause(monitored: Monitored) -> None:
    missed, failed = await monitored.add_heartbeats(2)
    await monitored.states.change(*taking((missed, "a", "success", T0), (failed, "b", "failure", T0)), None)
    await monitored.states.change_due(DOWN, 10, passing(DOWN))
    rows = await monitored.rows(
        "SELECT a.*, e.project_id AS its_project, p.account_id AS its_account FROM alert_events AS a "
        "JOIN environments AS e ON e.id = a.environment_id JOIN projects AS p ON p.id = e.project_id ORDER BY a.id"
    )
    assert all(
        (row["project_id"], row["account_id"]) == (row["its_project"], row["its_account"]) for row in rows
    )
    facts = {row["subject"]: json.loads(row["facts"]) for row in rows}
    assert facts[str(failed)]["cause"] == "failed"
    assert {
        "heartbeat": "job 0",
        "state": "down",
        "cause": "missed",
        "due_ms": LATE,
        "since_ms": DOWN,
        "last_success_ms": T0,
        "failures_in_row": 1,
        "period_seconds": 3600,
    }.items() <= facts[str(missed)].items()
    assert [row["at_ms"] for row in rows] == [T0, DOWN]


# The begin and the end of a gap. The scan ran until 4 s before the begin.
FROM, TO = T0 + 50 * MINUTE, T0 + 2 * HOUR
GAP = TO - (FROM - 4000)
BLIND = [("alive", FROM), ("alive", TO)]
UNKNOWN_UNTIL = TO + 5 * MINUTE
MOVED_DUE = max(LATE + GAP, UNKNOWN_UNTIL)
GAPS: dict[str, tuple[dict[str, Any], list[Step], str, list[Step], str]] = {
    # Settings, steps, the state after them, further steps, and the final state.
    "shorter than a minute": (
        {},
        [("success", T0), ("alive", LATE - 30_000), ("alive", LATE + 30_000), ("scan", LATE)],
        "late",
        [],
        "late",
    ),
    "not due by far: only the deadline moves": (
        {"period_seconds": DAY // 1000},
        [("success", T0), *BLIND, ("scan", T0 + DAY)],
        "up",
        [("scan", T0 + DAY + GAP)],
        "late",
    ),
    "due in the gap, until the moved deadline": (
        {},
        [("success", T0), *BLIND, ("scan", MOVED_DUE - 1)],
        "unknown",
        [("scan", MOVED_DUE), ("scan", MOVED_DUE + 5 * MINUTE - 1)],
        "late",
    ),
    "due in the gap, down in the end": (
        {},
        [("success", T0), *BLIND],
        "unknown",
        [("scan", MOVED_DUE + 5 * MINUTE)],
        "down",
    ),
    "a ping while unknown": (
        {},
        [("success", T0), *BLIND],
        "unknown",
        [("success", TO + 1), ("scan", TO + HOUR)],
        "up",
    ),
    "a ping from before the gap that is applied after it": (
        {"period_seconds": 300, "grace_seconds": 60},
        [("success", FROM - 5 * MINUTE), *BLIND, ("success", FROM - 6000), ("scan", TO + MINUTE - 1)],
        "up",
        [("success", TO + 2 * MINUTE), ("scan", TO + 2 * MINUTE + 1)],
        "up",
    ),
    "late before the gap": (
        {"grace_seconds": 1800},
        [("success", T0 - 15 * MINUTE), ("scan", FROM - 5000), *BLIND],
        "unknown",
        [("scan", T0 + 45 * MINUTE + 30 * MINUTE + GAP - 1)],
        "unknown",
    ),
    "late before the gap, and judged after it": (
        {"grace_seconds": 1800},
        [("success", T0 - 15 * MINUTE), *BLIND, ("scan", TO)],
        "late",
        [("scan", TO + 30 * MINUTE - 1)],
        "late",
    ),
    "running": (
        {"max_runtime_seconds": 3600},
        [("start", T0), *BLIND, ("scan", T0 + HOUR + GAP - 1)],
        "unknown",
        [("scan", T0 + HOUR + GAP)],
        "down",
    ),
    "running, and another run begins": (
        {"max_runtime_seconds": 3600},
        [("start", T0), *BLIND, ("start", TO + 1), ("scan", T0 + HOUR + GAP - 1)],
        "running",
        [],
        "running",
    ),
    "down": ({}, [("failure", T0), *BLIND, ("scan", TO + DAY)], "down", [("success", TO + DAY)], "up"),
    "two gaps": (
        {},
        [
            ("success", T0),
            *BLIND,
            ("alive", TO + MINUTE),
            ("alive", TO + HOUR),
            ("scan", TO + HOUR + 5 * MINUTE - 1),
        ],
        "unknown",
        [("failure", T0 + 1), ("scan", TO + HOUR + 5 * MINUTE - 1)],
        "down",
    ),
    "two gaps, and an older ping": (
        {"failures_before_down": 2},
        [("success", T0), *BLIND, ("alive", TO + MINUTE), ("alive", TO + HOUR), ("failure", T0 + 1)],
        "up",
        [("scan", TO + HOUR + 5 * MINUTE - 1)],
        "up",
    ),
    "cron": (
        # T0 is at 08:00.
        {"period_seconds": None, "cron": "30 9 * * *"},
        [("success", T0), *BLIND, ("scan", T0 + 90 * MINUTE + GAP - 1)],
        "unknown",
        [("scan", T0 + 90 * MINUTE + GAP + 5 * MINUTE)],
        "down",
    ),
    "new and paused": ({"paused": True}, [*BLIND], "new", [("scan", TO + DAY)], "new"),
}


async def test_deadlines_move_past_gaps(monitored: Monitored) -> None:
    for case, (settings, steps, state, later, end) in GAPS.items():
        (heartbeat,) = await monitored.add_heartbeats(1, name=case, **settings)
        await _play(monitored, heartbeat, steps)
        assert (await monitored.state_of(heartbeat))["state"] == state, case
        await _play(monitored, heartbeat, later)
        assert (await monitored.state_of(heartbeat))["state"] == end, case
        # The next case has new clocks and no other heartbeats.
        for table in ("monitor_progress", "heartbeat_runs", "heartbeat_states"):
            await monitored.execute(f"DELETE FROM {table}")


async def test_an_outage_of_pharos_is_one_message(monitored: Monitored) -> None:
    """The scan and the intake stop at the same time. A heartbeat that was already late causes no second message."""
    late, down, other = await monitored.add_heartbeats(3, grace_seconds=1800)
    signals = [
        (late, "a", "success", T0 - 15 * MINUTE),
        (down, "b", "failure", T0),
        (other, "c", "success", T0),
    ]
    states = monitored.states
    await states.change(*taking(*signals), None)
    await states.change_due(FROM - 5000, 9, passing(FROM - 5000))
    events = await _events(monitored)
    assert [event[0] for event in events] == ["heartbeat.down", "heartbeat.late"]
    for clock in (SCAN_CLOCK, INTAKE_CLOCK):
        assert await states.keep_clock(clock, FROM) is None
    gap = await states.keep_clock(SCAN_CLOCK, TO)
    assert gap is not None and (gap.from_ms, gap.to_ms) == (FROM - 4000, TO)
    assert await states.keep_clock(INTAKE_CLOCK, TO - MINUTE) is None
    assert await states.keep_clock(INTAKE_CLOCK, TO + MINUTE) is None
    # A clock never goes back.
    assert await states.keep_clock(SCAN_CLOCK, T0) is None
    found = [(await monitored.state_of(heartbeat))["state"] for heartbeat in (late, down, other)]
    assert found == ["unknown", "down", "unknown"]
    (blind,) = await monitored.rows("SELECT * FROM alert_events WHERE kind = 'platform.blind'")
    assert (blind["state"], blind["subject"], blind["environment_id"]) == ("info", "blind", None)
    facts = json.loads(blind["facts"])
    assert facts == {"from_ms": FROM - 4000, "to_ms": TO, "what": "heartbeats", "heartbeats": 3}
    await states.change_due(TO + DAY, 9, passing(TO + DAY))
    assert (await _events(monitored))[len(events) + 1 :] == [
        ("heartbeat.down", str(heartbeat), "firing") for heartbeat in (late, other)
    ]
