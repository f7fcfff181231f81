"""Schema files with other retention periods; with the defaults they stay what installations have applied."""

import hashlib
import re
from dataclasses import fields, replace

import pytest

from storage_backends.column_store.apply_schema import read_schema, schema_files
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from storage_backends.column_store.retention import Retention

# SHA-256 of the statements of each released file. An installation applies a file once, so a change never reaches it.
# Changes go into a new file, which gets its line here.
_RELEASED = {
    "0001_telemetry_events": "c177c3424d97ff7f",
    "0002_ingest_receipts": "54f60cecfb7b152e",
    "0003_otel_traces": "397fc0fe49cc4043",
    "0004_otel_logs": "585d8ba8bf7d4d01",
    "0005_otel_metrics": "d212a4550b1104d2",
    "0006_queue_history": "9336764391d3b61e",
    "0007_pageviews": "353d9bc52a83d89d",
    "0008_visit_days": "b71ad49721a4f9df",
    "0009_insert_deadlines": "befcef0175fa7d2f",
    "0010_otel_lookups": "13d7a1540b9ea249",
    "0011_telemetry_reads": "5765ee12bc16bc44",
    "0012_request_rollups": "a4bea40aa7364229",
    "0013_visit_day_figures": "37d9a37b922f2f13",
    "0014_rows_by_receipt": "81cdb07e596369f4",
    "0015_direct_rollups": "a40bf06eb300a6ec",
    "0016_events_of_visits": "1f3e5cf7c4c41dc5",
}
_NAMES = [field.name for field in fields(Retention)]
_OTHER = Retention(**{name: f"{number} DAY" for number, name in enumerate(_NAMES, start=100)})
_TABLES = (
    "SELECT name, create_table_query FROM system.tables WHERE database = {database:String} ORDER BY name"
)


def test_released_schema_files_are_unchanged() -> None:
    digests = {
        path.stem: hashlib.sha256("\n".join(read_schema(path)).encode()).hexdigest()[:16]
        for path in schema_files()
    }
    assert digests == _RELEASED


@pytest.mark.parametrize("name", _NAMES)
def test_a_retention_changes_ttl_clauses_and_nothing_else(name: str) -> None:
    retention = replace(Retention(), **{name: "7 DAY"})
    changed = []
    for path in schema_files():
        before = "\n".join(read_schema(path)).splitlines()
        after = "\n".join(read_schema(path, retention)).splitlines()
        changed += [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    assert changed
    for was, now in changed:
        assert re.fullmatch(r"TTL .+ \+ INTERVAL \d+ (HOUR|DAY|YEAR)", was)
        assert now == was.partition("INTERVAL")[0] + "INTERVAL 7 DAY"


async def test_tables_with_other_retention_differ_in_their_ttl_alone(column_store: ChdbColumnStore) -> None:
    tables = {}
    try:
        for database, retention in (("by_default", Retention()), ("by_other", _OTHER)):
            await column_store.command(f"CREATE DATABASE {database}")
            for path in schema_files():
                for statement in read_schema(path, retention):
                    await column_store.command(statement.replace("pharos.", f"{database}."))
            rows = (await column_store.query(_TABLES, {"database": database})).rows
            tables[database] = {name: query.replace(f"{database}.", "") for name, query in rows}
    finally:
        for database in ("by_default", "by_other"):
            await column_store.command(f"DROP DATABASE IF EXISTS {database}")
    ttl = re.compile(r"(?<= TTL ).*?(?= SETTINGS )")
    found = {match[0] for query in tables["by_other"].values() if (match := ttl.search(query))}
    assert {int(number) for text in found for number in re.findall(r"\d{3}", text)} == set(
        range(100, 100 + len(_NAMES))
    )
    without = [{name: ttl.sub("", query) for name, query in made.items()} for made in tables.values()]
    assert without[0] == without[1]
    assert len(without[0]) == 29


@pytest.mark.parametrize("text", ["", "0 DAY", "90 days", "90 DAY, x = 1", "1.5 DAY", "-1 DAY"])
def test_a_retention_that_is_no_interval_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Retention of otel_logs"):
        Retention(otel_logs=text)
