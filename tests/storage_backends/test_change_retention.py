"""The retention of tables is changed while they are in use; a shorter one deletes at once."""

from datetime import UTC, date, datetime, timedelta

import pytest

from storage_backends.column_store.change_retention import apply_retention, is_expired, read_retention
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


async def test_a_table_has_the_partitions_and_the_ttl_that_its_kind_says(
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
        changed = await apply_retention(column_store, [("otel_metrics", 7)], today)
        assert changed[-1] == "otel_metrics: 7 days"
        assert await stored() == days[2:]
        assert (await read_retention(column_store))["otel_metrics"] == 7
        assert await apply_retention(column_store, [("otel_metrics", 7)], today) == []
        # As after a failure between two tables of the kind: the others follow.
        first = KINDS["otel_metrics"][0]
        await column_store.command(
            f"ALTER TABLE pharos.{first.name} MODIFY TTL {first.time} + toIntervalDay(60)"
        )
        assert (await read_retention(column_store))["otel_metrics"] == 7
        changed = await apply_retention(column_store, [("otel_metrics", 60)], today)
        assert changed == ["otel_metrics: 60 days"]
        assert (await read_retention(column_store))["otel_metrics"] == 60
    finally:
        await apply_retention(column_store, [("otel_metrics", before)], today)
    assert (await read_retention(column_store))["otel_metrics"] == before == 30
    assert await stored() == days[2:]
