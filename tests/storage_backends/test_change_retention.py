"""Changes of the retention of tables that are in use. A shorter retention deletes immediately."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from pipeline_contracts.errors import StorageUnavailable
from storage_backends.column_store.change_retention import (
    apply_retention,
    is_expired,
    read_retention,
    shorten_retention,
)
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from storage_backends.column_store.stored_kinds import KINDS, Unit, partition_end

TABLE = "otel_metrics_summary"


@pytest.mark.parametrize(
    ("unit", "partition_id", "end"),
    [
        ("day", "20260228", date(2026, 3, 1)),
        ("week", "20261228", date(2027, 1, 4)),
        ("month", "202612", date(2027, 1, 1)),
        ("month", "202601", date(2026, 2, 1)),
        ("year", "2026", date(2027, 1, 1)),
    ],
)
def test_end_of_a_partition(unit: Unit, partition_id: str, end: date) -> None:
    assert partition_end(unit, partition_id) == end
    assert not is_expired(end, 7, end + timedelta(days=6))
    assert is_expired(end, 7, end + timedelta(days=7))


async def test_tables_have_the_partitions_and_the_ttl_of_their_kind(
    column_store: ChdbColumnStore,
) -> None:
    keys = {"day": "toDate(", "week": "toMonday(", "month": "toYYYYMM(", "year": "toYear("}
    query = "SELECT name, partition_key, engine_full FROM system.tables WHERE database = 'pharos'"
    found = {name: rest for name, *rest in (await column_store.query(query)).rows}
    for tables in KINDS.values():
        for table in tables:
            partition_key, engine = found[table.name]
            assert partition_key.startswith(keys[table.unit]), table
            assert f" TTL {table.time} + " in engine, table


async def test_a_shorter_retention_deletes_and_a_longer_one_is_applied(column_store: ChdbColumnStore) -> None:
    now = datetime.now(UTC)
    today = now.date()

    async def stored() -> list[date]:
        query = (
            f"SELECT toDate(ReceivedAt) FROM pharos.{TABLE} WHERE EnvironmentId = 'env_retention' ORDER BY 1"
        )
        return [day for (day,) in (await column_store.query(query)).rows]

    days = [today - timedelta(days=age) for age in (20, 8, 7, 0)]
    for day in days:
        await column_store.command(
            f"INSERT INTO pharos.{TABLE} (EnvironmentId, ReceivedAt) VALUES ('env_retention', '{day} 12:00:00')"
        )
    before = (await read_retention(column_store))["otel_metrics"]
    try:
        # A setting alone deletes nothing: it may come from a restored database.
        applied = await apply_retention(column_store, [("otel_metrics", 7)], today)
        assert (applied.changed, len(applied.refused)) == ([], 1)
        assert await stored() == days
        assert (await read_retention(column_store))["otel_metrics"] == before
        await shorten_retention(column_store, "otel_metrics", 7, today)
        assert await stored() == days[2:]
        assert (await read_retention(column_store))["otel_metrics"] == 7
        applied = await apply_retention(column_store, [("otel_metrics", 7)], today)
        assert (applied.changed, applied.refused) == ([], [])
        # Partitions that were written before the change expire later in the store itself.
        await apply_retention(column_store, [("otel_metrics", 7)], today + timedelta(days=1))
        assert await stored() == days[3:]
    finally:
        await apply_retention(column_store, [("otel_metrics", before)], today)
    assert (await read_retention(column_store))["otel_metrics"] == before == 30
    assert await stored() == days[3:]


class FailingStore:
    """A store with the TTLs of the tables of a kind, whose commands fail after a given number."""

    def __init__(self, kind: str, days: int) -> None:
        self.days = {table.name: days for table in KINDS[kind]}
        self.commands_left = 1000

    async def query(self, statement: str, *_parameters: Any) -> Any:
        rows = []
        if "engine_full" in statement:
            rows = [(name, f"MergeTree TTL x + toIntervalDay({days})") for name, days in self.days.items()]
        return type("Result", (), {"rows": rows})

    async def command(self, statement: str) -> None:
        self.commands_left -= 1
        if self.commands_left < 0:
            raise StorageUnavailable("the disk is full")
        name = statement.split("pharos.")[1].split()[0]
        self.days[name] = int(statement.split("toIntervalDay(")[1].split(")")[0])


@pytest.mark.parametrize("days", [365, 7])
async def test_an_interrupted_change_is_completed(days: int) -> None:
    store: Any = FailingStore("otel_metrics", 30)
    today = date(2026, 11, 26)
    store.commands_left = 2

    async def change() -> None:
        if days > 30:
            await apply_retention(store, [("otel_metrics", days)], today)
        else:
            await shorten_retention(store, "otel_metrics", days, today)

    with pytest.raises(StorageUnavailable):
        await change()
    assert sorted(set(store.days.values())) == sorted({30, days})
    # The retention of a kind is the longest of its tables.
    assert (await read_retention(store))["otel_metrics"] == max(30, days)
    store.commands_left = 1000
    await change()
    assert set(store.days.values()) == {days}
    assert store.commands_left == 997
