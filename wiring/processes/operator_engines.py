"""The engines that an operator's commands work on where the parts are processes of their own."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from control_domain.database.engine import open_engine, open_sessions
from control_domain.sealing import read_sealing_keys
from deployer.drivers.all_drivers import open_process_output
from operator_actions.door import Engines
from pipeline_contracts.settings import Settings
from storage_backends.key_directory.redis import open_redis_key_directory
from wiring.processes.needs import need

# A person waits for the command, and no request does: a Redis that is slow for a moment is not away.
_REDIS_SECONDS = 10.0


@asynccontextmanager
async def operator_engines(settings: Settings) -> AsyncIterator[Engines]:
    """The database, the key directory and, where it is set, ClickHouse. Raises `BadSettings` and
    `StorageUnavailable`."""
    database_url, redis_url = need(settings, "database_url", "redis_url")
    async with AsyncExitStack() as stack:
        engine = open_engine(database_url)
        stack.push_async_callback(engine.dispose)
        directory = await open_redis_key_directory(redis_url, follow=False, seconds=_REDIS_SECONDS)
        stack.push_async_callback(directory.close)
        store = None
        if settings.clickhouse_url is not None:
            # Only here: its client is a fifth of what most commands, which need none, take to start.
            from storage_backends.column_store.clickhouse_server import open_clickhouse_server

            store = await open_clickhouse_server(
                settings.clickhouse_url,
                cluster=settings.clickhouse_cluster,
                statement_seconds=settings.clickhouse_timeout_seconds,
            )
            stack.push_async_callback(store.close)
        keys = None if settings.variables_key is None else read_sealing_keys(settings.variables_key)
        folder = settings.deploy_folder
        output = None if folder is None else open_process_output(Path(folder))
        yield Engines(open_sessions(engine), directory, store, keys, output)
