"""Sizes, growth and the days until a disk is full, from the partitions of the tables."""

from datetime import UTC, datetime
from typing import get_args

from analytics_queries.alerts.disk_space import DiskSpace
from analytics_queries.storage.stored_partitions import StoredPartition
from control_domain.storage.report import DataKind, describe_storage
from storage_backends.column_store.stored_kinds import KINDS

NOW = datetime(2026, 11, 26, 18, tzinfo=UTC)


def test_every_kind_is_in_the_reference() -> None:
    assert get_args(DataKind) == (*KINDS,)


def test_sizes_growth_and_days_left() -> None:
    partitions = [
        # 700 a day in the last 7 days; the oldest day is deleted in the next 7.
        *(StoredPartition("otel_logs", f"202611{day}", 10, 700) for day in range(20, 27)),
        StoredPartition("otel_logs", "20261030", 5, 1400),
        # Half of the month's 26 days are as large as the other half: 2600 are 100 a day.
        StoredPartition("pageviews", "202611", 26, 2600),
        StoredPartition("visit_days", "2025", 1, 999),
        StoredPartition("pageview_ids", "202611", 1, 50),
    ]
    document = describe_storage(
        partitions,
        {"otel_logs": 30, "pageviews": 1095},
        [DiskSpace("default", 60_000, 100_000), DiskSpace("second", 90_000, 100_000)],
        ("sqlite", 4096),
        123,
        NOW,
    )
    kinds = {kind["kind"]: kind for kind in document["kinds"]}
    assert (kinds["otel_logs"]["rows"], kinds["otel_logs"]["bytes"]) == (75, 6300)
    assert kinds["otel_logs"]["bytes_per_day"] == 700
    assert kinds["otel_logs"]["parts"][0] == {"until": "2026-10-31", "rows": 5, "bytes": 1400}
    assert kinds["pageviews"]["bytes_per_day"] == 100
    assert kinds["daily_rollups"]["bytes_per_day"] == 0
    assert kinds["daily_rollups"]["retention_days"] is None
    assert document["other_bytes"] == 50
    assert document["bytes_per_day"] == 800
    # 1400 of the logs expire within 7 days: 200 a day less.
    assert document["days_left"] == 60_000 // 600


def test_a_store_that_does_not_grow_has_no_end() -> None:
    old = [StoredPartition("otel_logs", "20261101", 5, 1400)]
    disks = [DiskSpace("default", 1000, 2000)]
    assert describe_storage(old, {}, disks, ("sqlite", 1), None, NOW)["days_left"] is None
    assert describe_storage([], {}, [], ("postgresql", 1), None, NOW)["disks"] == []
