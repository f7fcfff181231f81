"""The options with which `pharos migrate` opens the engines."""

from typing import Any

import pytest

import wiring.processes.migrate
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.settings import Settings
from wiring.processes.migrate import migrate


async def test_migration_of_a_whole_table_has_no_short_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """With `PHAROS_CLICKHOUSE_TIMEOUT_SECONDS` as its limit, the migration would start over with each run."""
    asked: dict[str, Any] = {}

    async def create_topics(*arguments: Any) -> list[str]:
        return []

    async def open_store(url: str, **settings: Any) -> None:
        asked.update(settings)
        raise StorageUnavailable("That was all.")

    monkeypatch.setattr(wiring.processes.migrate, "create_topics", create_topics)
    monkeypatch.setattr(wiring.processes.migrate, "open_clickhouse_server", open_store)
    settings = Settings(database_url="postgresql://h/d", clickhouse_url="http://h", kafka_bootstrap="h:9092")
    with pytest.raises(StorageUnavailable):
        async for _ in migrate(settings):
            pass
    assert asked["statement_seconds"] >= 3600
