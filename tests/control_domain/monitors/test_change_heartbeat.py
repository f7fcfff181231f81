"""Changed settings of heartbeats and their effect on the state, on both databases. Times are in milliseconds."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from control_domain.database.engine import open_sessions
from control_domain.monitors.change_heartbeat import change_heartbeat, set_paused
from control_domain.monitors.operations import get_settings
from control_domain.monitors.remove_monitors import remove_heartbeat
from control_domain.tables.monitors import Heartbeat
from pipeline_contracts.errors import NotFound
from pipeline_contracts.heartbeat_runs import Run
from pipeline_contracts.heartbeat_states import apply_deadlines, apply_signal, update_state
from pipeline_contracts.monitors import Signal
from pipeline_contracts.schedules import Schedule, next_due
from pipeline_contracts.times import from_epoch_ms
from storage_backends.monitor_states.interface import Change, Watched
from tests.support.lock_waits import ends_or_waits
from tests.support.monitored import HOUR, MINUTE, T0, Monitored

NIGHTLY = Schedule(cron="0 3 * * *", timezone="Europe/Oslo")


async def change(monitored: Monitored, number: int, at_ms: int, **settings: Any) -> dict[str, Any]:
    """Change the settings and return the new state, a row."""
    async with open_sessions(monitored.engine)() as session, session.begin():
        heartbeat = await session.get_one(Heartbeat, number)
        new_settings = replace(get_settings(heartbeat), name="left alone", **settings)
        await change_heartbeat(session, heartbeat, new_settings, from_epoch_ms(at_ms))
    return await monitored.state_of(number)


async def pause(monitored: Monitored, number: int, at_ms: int, paused: bool = True) -> None:
    async with open_sessions(monitored.engine)() as session, session.begin():
        heartbeat = await session.get_one(Heartbeat, number)
        await set_paused(session, heartbeat, paused, from_epoch_ms(at_ms))


async def report(monitored: Monitored, number: int, signal: Signal, at_ms: int, run_id: str = "a") -> None:
    """Apply a signal, as a consumer does."""

    def apply(watched: Mapping[int, Watched]) -> list[Watched]:
        for watched_heartbeat in watched.values():
            run = watched_heartbeat.runs.setdefault(run_id, Run(run_id, at_ms))
            apply_signal(watched_heartbeat.heartbeat, run, signal, at_ms)
            watched_heartbeat.changed.append(run)
            update_state(watched_heartbeat.heartbeat, at_ms)
        return list(watched.values())

    await monitored.states.change({number: [run_id]}, apply, None)


def apply_deadlines_at(clock_ms: int) -> Change:
    """Apply deadlines, as the scan does."""

    def apply(watched: Mapping[int, Watched]) -> list[Watched]:
        for watched_heartbeat in watched.values():
            watched_heartbeat.changed += apply_deadlines(
                watched_heartbeat.heartbeat, list(watched_heartbeat.runs.values()), clock_ms
            )
        return list(watched.values())

    return apply


async def scan(monitored: Monitored, clock_ms: int) -> int:
    return await monitored.states.change_due(clock_ms, 10, apply_deadlines_at(clock_ms))


def summarize(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the state, its start, the due time, the deadline and the number of failures."""
    return (row["state"], row["since_ms"], row["due_ms"], row["deadline_ms"], row["failures_in_row"])


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("schedule", "due_ms"),
    [
        (Schedule(7200), T0 + 2 * HOUR),
        (Schedule(1200), T0 + 20 * MINUTE),
        (NIGHTLY, next_due(NIGHTLY, T0)),
        # Due before the change by the new schedule: due from the change on instead, not late.
        (Schedule(300), T0 + 15 * MINUTE),
        (Schedule(cron="*/5 * * * *"), next_due(Schedule(cron="*/5 * * * *"), T0 + 10 * MINUTE)),
    ],
    ids=str,
)
async def test_a_new_schedule_applies_at_once(monitored: Monitored, schedule: Schedule, due_ms: int) -> None:
    number, other = await monitored.add_heartbeats(2)
    for watched_heartbeat in (number, other):
        await report(monitored, watched_heartbeat, "success", T0)
    row = await change(monitored, number, T0 + 10 * MINUTE, schedule=schedule)
    assert summarize(row) == ("up", T0, due_ms, due_ms, 0)
    assert (row["version"], row["last_signal_ms"], row["last_success_ms"]) == (2, T0, T0)
    assert summarize(await monitored.state_of(other)) == ("up", T0, T0 + HOUR, T0 + HOUR, 0)
    await scan(monitored, due_ms - 1)
    assert (await monitored.state_of(number))["state"] == "up"
    await scan(monitored, due_ms)
    assert (await monitored.state_of(number))["state"] == "late"
    (written,) = await monitored.rows(f"SELECT * FROM heartbeats WHERE id = {number}")
    assert Schedule(written["period_seconds"], written["cron"], written["timezone"]) == schedule
    assert written["name"] == "job 0"


@pytest.mark.parametrize("grace", [600, 60, 0])
async def test_a_new_grace_time_moves_the_deadline(monitored: Monitored, grace: int) -> None:
    """A late heartbeat waits for the same run."""
    (number,) = await monitored.add_heartbeats(1)
    await report(monitored, number, "success", T0)
    up = await change(monitored, number, T0 + MINUTE, grace_seconds=240)
    assert summarize(up) == ("up", T0, T0 + HOUR, T0 + HOUR, 0)
    await scan(monitored, T0 + HOUR)
    row = await change(monitored, number, T0 + HOUR + 2 * MINUTE, grace_seconds=grace)
    down_ms = T0 + HOUR + 1000 * grace
    assert summarize(row) == ("late", T0 + HOUR, T0 + HOUR, down_ms, 0)
    await scan(monitored, down_ms)
    assert summarize(await monitored.state_of(number)) == ("down", down_ms, None, None, 1)


async def test_missed_runs_are_counted_once(monitored: Monitored) -> None:
    (number,) = await monitored.add_heartbeats(1, failures_before_down=3)
    await report(monitored, number, "success", T0)
    now_ms = T0 + 2 * HOUR + 10 * MINUTE
    await scan(monitored, now_ms)
    missed = ("late", T0 + HOUR, T0 + 3 * HOUR, T0 + 3 * HOUR + 5 * MINUTE, 2)
    assert summarize(await monitored.state_of(number)) == missed
    row = await change(monitored, number, now_ms, grace_seconds=600)
    assert summarize(row) == (*missed[:3], T0 + 3 * HOUR + 10 * MINUTE, 2)
    # The time zone does not matter for a period: the due run stays.
    row = await change(monitored, number, now_ms, schedule=Schedule(3600, timezone="Europe/Oslo"))
    assert summarize(row) == (*missed[:3], T0 + 3 * HOUR + 10 * MINUTE, 2)
    row = await change(monitored, number, now_ms, failures_before_down=2)
    assert summarize(row) == ("down", now_ms, None, None, 2)


async def test_only_a_success_or_a_higher_limit_ends_down(monitored: Monitored) -> None:
    (number,) = await monitored.add_heartbeats(1)
    await report(monitored, number, "failure", T0)
    now_ms = T0 + 10 * MINUTE
    row = await change(monitored, number, now_ms, schedule=Schedule(7200), grace_seconds=60)
    assert summarize(row) == ("down", T0, None, None, 1)
    row = await change(monitored, number, now_ms, failures_before_down=2)
    assert summarize(row) == ("up", now_ms, T0 + 2 * HOUR, T0 + 2 * HOUR, 1)
    row = await change(monitored, number, now_ms + 1, failures_before_down=1)
    assert summarize(row) == ("down", now_ms + 1, None, None, 1)


async def test_a_new_runtime_limit_applies_to_the_open_run(monitored: Monitored) -> None:
    (number,) = await monitored.add_heartbeats(1)
    await report(monitored, number, "start", T0)
    row = await change(monitored, number, T0 + MINUTE, max_runtime_seconds=7200, schedule=Schedule(60))
    assert summarize(row) == ("running", T0, None, T0 + 2 * HOUR, 0)
    row = await change(monitored, number, T0 + MINUTE, max_runtime_seconds=120)
    assert summarize(row) == ("running", T0, None, T0 + 2 * MINUTE, 0)
    await scan(monitored, T0 + 2 * MINUTE)
    assert summarize(await monitored.state_of(number)) == ("down", T0 + 2 * MINUTE, None, None, 1)


async def test_paused_stays_paused_and_new_stays_new(monitored: Monitored) -> None:
    """A resumed heartbeat waits for its next signal."""
    (number,) = await monitored.add_heartbeats(1)
    row = await change(monitored, number, T0 + 1, schedule=Schedule(60))
    assert (summarize(row), row["version"]) == (("new", T0, None, None, 0), 1)
    await report(monitored, number, "success", T0 + 2)
    await pause(monitored, number, T0 + 3)
    row = await change(monitored, number, T0 + 4, schedule=NIGHTLY)
    assert (summarize(row), row["version"]) == (("paused", T0 + 3, None, None, 0), 4)
    (written,) = await monitored.rows("SELECT * FROM heartbeats")
    assert (bool(written["paused"]), written["cron"]) == (True, NIGHTLY.cron)
    await pause(monitored, number, T0 + 5, paused=False)
    row = await change(monitored, number, T0 + 6, schedule=Schedule(60))
    assert summarize(row) == ("new", T0 + 5, None, None, 0)


async def test_unknown_stays_until_the_schedule_changes(monitored: Monitored) -> None:
    (number,) = await monitored.add_heartbeats(1)
    await report(monitored, number, "success", T0)
    now_ms = T0 + HOUR + MINUTE
    assert await monitored.states.mark_unknown(T0, T0 + HOUR, now_ms) == 1
    row = await change(monitored, number, now_ms, grace_seconds=600)
    assert summarize(row) == ("unknown", now_ms, T0 + HOUR, T0 + HOUR, 0)
    row = await change(monitored, number, now_ms, schedule=Schedule(7200))
    assert summarize(row) == ("up", now_ms, T0 + 2 * HOUR, T0 + 2 * HOUR, 0)


async def test_the_same_settings_change_nothing(monitored: Monitored) -> None:
    (number,) = await monitored.add_heartbeats(1)
    await report(monitored, number, "success", T0)
    before = await monitored.state_of(number)
    assert await change(monitored, number, T0 + 3 * HOUR) == before


async def test_a_signal_between_read_and_change_counts(monitored: Monitored) -> None:
    (number,) = await monitored.add_heartbeats(1)
    async with open_sessions(monitored.engine)() as session, session.begin():
        heartbeat = await session.get_one(Heartbeat, number)
        new_settings = replace(get_settings(heartbeat), schedule=Schedule(7200))
        await report(monitored, number, "success", T0 + 5)
        await change_heartbeat(session, heartbeat, new_settings, from_epoch_ms(T0 + 6))
    row = await monitored.state_of(number)
    assert summarize(row) == ("up", T0 + 5, T0 + 5 + 2 * HOUR, T0 + 5 + 2 * HOUR, 0)
    assert (row["last_success_ms"], row["version"]) == (T0 + 5, 2)


@pytest.mark.both_databases
async def test_a_signal_during_the_change_uses_the_new_settings(monitored: Monitored) -> None:
    """The consumer waits for the change, and then uses the new settings."""
    number, paused = await monitored.add_heartbeats(2)
    async with open_sessions(monitored.engine)() as session, session.begin():
        heartbeat = await session.get_one(Heartbeat, number)
        new_settings = replace(get_settings(heartbeat), schedule=Schedule(7200))
        await change_heartbeat(session, heartbeat, new_settings, from_epoch_ms(T0))
        await set_paused(session, await session.get_one(Heartbeat, paused), True, from_epoch_ms(T0))
        reports = [
            asyncio.create_task(report(monitored, watched_heartbeat, "success", T0 + 5))
            for watched_heartbeat in (number, paused)
        ]
        for waiting in reports:
            await ends_or_waits(open_sessions(monitored.engine), waiting)
        assert not any(watched_heartbeat.done() for watched_heartbeat in reports)
    await asyncio.gather(*reports)
    row = await monitored.state_of(number)
    assert summarize(row) == ("up", T0 + 5, T0 + 5 + 2 * HOUR, T0 + 5 + 2 * HOUR, 0)
    row = await monitored.state_of(paused)
    assert (summarize(row), row["last_signal_ms"]) == (("paused", T0, None, None, 0), T0 + 5)


@pytest.mark.both_databases
@pytest.mark.parametrize("settings", [{"schedule": Schedule(7200)}, {"grace_seconds": 1200}], ids=str)
async def test_a_scan_during_the_change_uses_the_new_settings(
    monitored: Monitored, settings: dict[str, Any]
) -> None:
    """On Postgres the scan has read the former state; the version reveals that."""
    (number,) = await monitored.add_heartbeats(1)
    await report(monitored, number, "success", T0)
    clock_ms = T0 + HOUR + 10 * MINUTE
    async with open_sessions(monitored.engine)() as session, session.begin():
        heartbeat = await session.get_one(Heartbeat, number)
        new_settings = replace(get_settings(heartbeat), **settings)
        await change_heartbeat(session, heartbeat, new_settings, from_epoch_ms(clock_ms))
        scanning = asyncio.create_task(scan(monitored, clock_ms))
        await ends_or_waits(open_sessions(monitored.engine), scanning)
        assert not scanning.done()
    await scanning
    await scan(monitored, clock_ms)
    row = await monitored.state_of(number)
    assert (row["state"], row["failures_in_row"]) == ("up" if "schedule" in settings else "late", 0)


@pytest.mark.both_databases
async def test_concurrent_changes_and_signals_lose_nothing(monitored: Monitored) -> None:
    (number,) = await monitored.add_heartbeats(1)
    await asyncio.gather(
        *(report(monitored, number, "success", T0 + n, f"r{n}") for n in range(30)),
        *(change(monitored, number, T0 + 50, schedule=Schedule(60 * n)) for n in range(61, 73)),
    )
    runs = await monitored.rows("SELECT * FROM heartbeat_runs WHERE succeeded_ms IS NOT NULL")
    assert len(runs) == 30
    (written,) = await monitored.rows("SELECT * FROM heartbeats")
    row = await monitored.state_of(number)
    assert (row["last_success_ms"], row["version"]) == (T0 + 29, 42)
    due_ms = T0 + 29 + 1000 * written["period_seconds"]
    assert (row["state"], row["due_ms"], row["deadline_ms"]) == ("up", due_ms, due_ms)


@pytest.mark.both_databases
async def test_a_heartbeat_removed_meanwhile_is_refused(monitored: Monitored) -> None:
    (number,) = await monitored.add_heartbeats(1)
    sessions = open_sessions(monitored.engine)
    async with sessions() as session, session.begin():
        heartbeat = await session.get_one(Heartbeat, number)
    async with sessions() as session, session.begin():
        await remove_heartbeat(session, await session.get_one(Heartbeat, number), from_epoch_ms(T0))
    told = f"Heartbeat {number} was just removed by another request."
    new_settings = replace(get_settings(heartbeat), grace_seconds=1)
    async with sessions() as session:
        with pytest.raises(NotFound, match=told):
            await change_heartbeat(session, heartbeat, new_settings, from_epoch_ms(T0))
        with pytest.raises(NotFound, match=told):
            await set_paused(session, heartbeat, True, from_epoch_ms(T0))
        with pytest.raises(NotFound, match=told):
            await remove_heartbeat(session, heartbeat, from_epoch_ms(T0))


async def test_resuming_resets_runs_and_misses(monitored: Monitored) -> None:
    """Covers an open run, missed runs, and a signal after the resume."""
    (heartbeat,) = await monitored.add_heartbeats(1, failures_before_down=2)
    await report(monitored, heartbeat, "success", T0, "first")
    await scan(monitored, T0 + HOUR + 5 * MINUTE)
    await report(monitored, heartbeat, "start", T0 + 2 * HOUR, "open")
    await pause(monitored, heartbeat, T0 + 2 * HOUR + 1)
    await pause(monitored, heartbeat, T0 + 9 * HOUR, paused=False)
    await report(monitored, heartbeat, "failure", T0 + 9 * HOUR - 1, "late")
    row = await monitored.state_of(heartbeat)
    assert summarize(row) == ("new", T0 + 9 * HOUR, None, None, 0)
    await report(monitored, heartbeat, "success", T0 + 9 * HOUR + 1, "second")
    assert await scan(monitored, T0 + 9 * HOUR + 2) == 0
    row = await monitored.state_of(heartbeat)
    assert (row["state"], row["failures_in_row"], row["open_runs"]) == ("up", 0, 0)
    # The run that was open at the pause no longer counts.
    assert await monitored.states.prune_runs(T0 + 9 * HOUR, 10) == 3


@pytest.mark.both_databases
async def test_a_pause_and_its_end_begin_afresh(monitored: Monitored) -> None:
    """Each increments the version, so that no scan overwrites it; a repetition changes nothing."""
    (number,) = await monitored.add_heartbeats(1, failures_before_down=2)
    await report(monitored, number, "failure", T0)
    version = (await monitored.state_of(number))["version"]
    for n, (paused, state) in enumerate(((True, "paused"), (False, "new"))):
        for attempt in range(2):
            await pause(monitored, number, T0 + HOUR + 10 * n + attempt, paused=paused)
            row = await monitored.state_of(number)
            assert summarize(row) == (state, T0 + HOUR + 10 * n, None, None, 0)
            assert (row["version"], row["last_signal_ms"]) == (version + n + 1, T0)
        (heartbeat,) = await monitored.rows(f"SELECT paused FROM heartbeats WHERE id = {number}")
        assert bool(heartbeat["paused"]) is paused


@pytest.mark.both_databases
async def test_a_signal_between_read_and_pause_does_not_wake_the_heartbeat(monitored: Monitored) -> None:
    (number,) = await monitored.add_heartbeats(1)
    async with open_sessions(monitored.engine)() as session, session.begin():
        heartbeat = await session.get_one(Heartbeat, number)
    await report(monitored, number, "success", T0)
    async with open_sessions(monitored.engine)() as session, session.begin():
        session.add(heartbeat)
        await set_paused(session, heartbeat, True, from_epoch_ms(T0 + 1))
    assert summarize(await monitored.state_of(number)) == ("paused", T0 + 1, None, None, 0)


@pytest.mark.both_databases
async def test_changes_by_people_begin_and_end_incidents(monitored: Monitored) -> None:
    """A pause, a removal and a longer schedule end an incident; fewer failures before down begin one."""
    paused, removed, relaxed, stricter, fine = await monitored.add_heartbeats(5, failures_before_down=2)
    for number in (paused, removed, relaxed, stricter, fine):
        await report(monitored, number, "success", T0)
    for number in (paused, removed, relaxed, stricter):
        await report(monitored, number, "failure", T0 + 1, "b")
    for number in (paused, removed, relaxed):
        await report(monitored, number, "failure", T0 + 2, "c")
    before = len(await monitored.rows("SELECT id FROM alert_events"))
    await pause(monitored, paused, T0 + 3)
    await change(monitored, relaxed, T0 + 3, failures_before_down=3)
    await change(monitored, stricter, T0 + 3, failures_before_down=1)
    await change(monitored, fine, T0 + 3, grace_seconds=9)
    await pause(monitored, paused, T0 + 4, False)
    async with open_sessions(monitored.engine)() as session, session.begin():
        for number in (removed, fine):
            await remove_heartbeat(session, await session.get_one(Heartbeat, number), from_epoch_ms(T0 + 5))
    rows = (await monitored.rows("SELECT * FROM alert_events ORDER BY id"))[before:]
    found = [(row["subject"], row["kind"], row["state"], row["at_ms"] - T0) for row in rows]
    assert found == [
        (str(paused), "heartbeat.down", "resolved", 3),
        (str(relaxed), "heartbeat.down", "resolved", 3),
        (str(stricter), "heartbeat.down", "firing", 3),
        (str(removed), "heartbeat.down", "resolved", 5),
    ]
    assert [json.loads(row["facts"]).get("reason") for row in rows] == ["paused", None, None, "removed"]
