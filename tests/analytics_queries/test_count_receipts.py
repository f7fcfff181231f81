"""Rows of the column store are counted by receipt, in the order in which they are stored."""

import uuid
from datetime import timedelta

from analytics_queries.overview.count_receipts import count_receipts
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from tests.analytics_queries.test_exception_groups import NOW, event, insert_rows, log_record


async def test_a_row_that_is_stored_late_is_counted(column_store: ChdbColumnStore) -> None:
    environment = uuid.uuid4().hex
    received = NOW - timedelta(minutes=10)

    async def count(*topics: str) -> dict[str, tuple[int, int]]:
        former, later = received - timedelta(hours=1), received + timedelta(seconds=10)
        found = await count_receipts(column_store, topics, [environment], [2**62], former, later)
        return {topic: tuple(each) for topic, each in found.items()}

    assert await count("events", "exceptions", "pageviews") == {
        "events": (0, 0),
        "exceptions": (0, 0),
        "pageviews": (0, 0),
    }
    # They were received ten minutes ago: at second 20, and then one at second 0.
    await insert_rows(column_store, log_record(environment, 20, "a"))
    assert await count("events") == {"events": (1, 1)}
    await insert_rows(column_store, event(environment, 0))
    assert await count("events") == {"events": (2, 1)}
