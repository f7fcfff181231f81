"""Heartbeats that pings create, and the logs of heartbeats, on SQLite and on Postgres."""

import asyncio
import time
from typing import Any

import pytest

from pipeline_contracts.times import from_epoch_ms
from storage_backends.monitor_states import rows
from storage_backends.monitor_states.interface import LogEntry, NamedHeartbeat
from tests.support.monitored import HOUR, T0, Monitored

pytestmark = pytest.mark.both_databases


def named(monitored: Monitored, *names: str, at_ms: int = T0) -> list[NamedHeartbeat]:
    return [NamedHeartbeat(monitored.environment_id, name, at_ms, f"ping of {name}") for name in names]


async def find(monitored: Monitored, *names: str) -> dict[str, int]:
    found = await monitored.states.find_or_create(named(monitored, *names))
    assert {environment for environment, _ in found} <= {monitored.environment_id}
    return {name: number for (_, name), number in found.items()}


async def test_a_new_name_becomes_a_heartbeat_once(monitored: Monitored) -> None:
    (known,) = await monitored.add_heartbeats(1)
    monitored.changes.is_due()
    made = await find(monitored, "job 0", "backup")
    assert made["job 0"] == known and await find(monitored, "backup", "job 0") == made
    # The workers of the control plane are notified, without another poll.
    assert monitored.changes.is_due()
    (row,) = await monitored.rows(f"SELECT * FROM heartbeats WHERE id = {made['backup']}")
    assert (row["name"], row["period_seconds"], row["cron"], row["timezone"]) == (
        "backup",
        86_400,
        None,
        "UTC",
    )
    settings = (row["grace_seconds"], row["max_runtime_seconds"], row["failures_before_down"], row["paused"])
    assert settings == (3600, 3600, 1, False)
    # SQLite returns the text as SQLAlchemy writes it.
    text = from_epoch_ms(T0).strftime("%Y-%m-%d %H:%M:%S")
    assert str(row["created_at"]).startswith(text)
    state = await monitored.state_of(made["backup"])
    assert (state["state"], state["since_ms"], state["open_runs"], state["version"]) == ("new", T0, 0, 0)
    assert await monitored.rows("SELECT * FROM created_heartbeats") == [
        {"heartbeat_id": made["backup"], "created_ms": T0}
    ]


async def test_one_of_concurrent_consumers_creates_the_heartbeat(monitored: Monitored) -> None:
    """After a rebalancing, two consumers may have the same records."""
    names = [f"new {n}" for n in range(5)]
    found = await asyncio.gather(*(find(monitored, *order) for order in (names, names[::-1], names) * 3))
    assert all(each == found[0] for each in found)
    assert (await monitored.rows("SELECT count(*) AS n FROM heartbeats"))[0]["n"] == 5
    assert (await monitored.rows("SELECT count(*) AS n FROM created_heartbeats"))[0]["n"] == 5


async def test_names_over_the_limit_are_not_created(
    monitored: Monitored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "CREATED_COLUMNS", (*rows.CREATED_COLUMNS[:-1], 3))
    for module in ("sqlite", "postgres"):
        monkeypatch.setattr(f"storage_backends.monitor_states.{module}.CREATED_COLUMNS", rows.CREATED_COLUMNS)
    await monitored.add_heartbeats(2)
    assert sorted(await find(monitored, "a", "b", "c", "job 1")) == ["a", "job 1"]
    for unknown in (
        NamedHeartbeat("env_unknown", "a", T0, "another ping"),
        NamedHeartbeat(monitored.environment_id, "z", None, "ping of z"),
    ):
        assert await monitored.states.find_or_create([unknown]) == {}


async def test_repeated_ping_applies_to_its_first_heartbeat(monitored: Monitored) -> None:
    """This also holds for another consumer with the same record at the same time, after the heartbeat was renamed or
    removed."""

    async def request(name: str, *pings: str) -> list[int]:
        sent = [NamedHeartbeat(monitored.environment_id, name, T0, ping) for ping in pings]
        return list((await monitored.states.find_or_create(sent)).values())

    (made,) = await request("backup", "first", "second")
    await monitored.execute("UPDATE heartbeats SET name = 'nightly' WHERE name = 'backup'")
    assert await asyncio.gather(*(request("backup", ping) for ping in ("first", "second"))) == [[made]] * 2
    # For a new ping, the name is new too.
    (other,) = await request("backup", "third")
    assert other != made and await request("backup", "first") == [made]
    for table in ("created_heartbeats", "heartbeat_states"):
        await monitored.execute(f"DELETE FROM {table} WHERE heartbeat_id = {other}")
    await monitored.execute(f"DELETE FROM heartbeats WHERE id = {other}")
    assert await request("backup", "third") == []
    assert await monitored.rows("SELECT name FROM heartbeats") == [{"name": "nightly"}]
    # As long as records may be read again.
    now_ms = time.time_ns() // 1_000_000
    assert await monitored.states.prune_creating_pings(now_ms - HOUR, 9) == 0
    assert [await monitored.states.prune_creating_pings(now_ms + HOUR, 2) for _ in range(3)] == [2, 1, 0]


def entry(monitored: Monitored, heartbeat: int, number: int, **changes: Any) -> LogEntry:
    values: dict[str, Any] = {
        "environment_id": monitored.environment_id,
        "run_id": None,
        "received_ms": T0 + number,
        "text": f"line {number}",
        **changes,
    }
    return LogEntry(heartbeat, entry_id=f"entry-{number:03}", **values)


async def test_the_newest_log_entries_stay(monitored: Monitored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MAX_LOG_ENTRIES", 3)
    first, second = await monitored.add_heartbeats(2)

    async def log(*entries: LogEntry) -> list[tuple[int, str]]:
        await monitored.states.add_log_entries(entries)
        sql = "SELECT heartbeat_id, text FROM heartbeat_log_entries ORDER BY heartbeat_id, received_ms"
        return [(row["heartbeat_id"], row["text"]) for row in await monitored.rows(sql)]

    kept = await log(*(entry(monitored, first, n) for n in range(2)), entry(monitored, second, 9, text=None))
    assert kept == [(first, "line 0"), (first, "line 1"), (second, None)]
    # A chunk that is read again changes nothing, and an entry older than the stored ones is not stored.
    again = [entry(monitored, first, n) for n in (4, 3, 2, 1, 0)]
    for _ in range(2):
        assert await log(*again) == [(first, f"line {n}") for n in (2, 3, 4)] + [(second, None)]
    # Entries of an unknown heartbeat, or of another environment than the key's, are ignored.
    refused = [entry(monitored, 999, 5), entry(monitored, second, 6, environment_id="env_other")]
    assert len(await log(*refused)) == 4
    assert await monitored.states.prune_log(T0 + 4, 1) == 1
    assert await monitored.states.prune_log(T0 + 4, 100) == 1
    assert await monitored.states.prune_log(T0 + HOUR, 100) == 2
