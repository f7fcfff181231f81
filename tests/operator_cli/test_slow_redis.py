"""Commands on engines whose Redis is slow."""

import asyncio
from pathlib import Path

import pytest

from pipeline_contracts.settings import Settings
from storage_backends import redis_connection
from tests.support.engines import or_skip
from tests.support.redis_server import running_redis
from wiring.processes.operator_engines import open_operator_engines


async def test_a_briefly_slow_redis_is_not_an_outage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On an outage the command would fail, or warn that the edges were not updated."""
    # Twice the time limit of a call.
    monkeypatch.setattr(redis_connection, "_CALL_SECONDS", 0.05)
    with or_skip(running_redis(tmp_path)) as server:
        settings = Settings(database_url=f"sqlite+aiosqlite:///{tmp_path}/none.sqlite", redis_url=server.url)
        async with open_operator_engines(settings) as engines:
            assert engines.directory is not None
            server.pause()
            telling = asyncio.create_task(engines.directory.revoke(b"d" * 32))
            await asyncio.wait({telling}, timeout=1.0)
            server.resume()
            await telling
