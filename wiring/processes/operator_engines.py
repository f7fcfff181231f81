"""Opens the engines for an operator's commands where the components run as processes."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from control_domain.database.engine import open_engine, open_sessions
from control_domain.sealing import read_sealing_keys
from pipeline_contracts.settings import Settings
from storage_backends.key_directory.redis import open_redis_key_directory
from wiring.operator_door import OperatorEngines
from wiring.processes.prerequisites import require_settings

# Longer than for requests: only the operator waits, and a slow Redis must not count as unavailable.
_REDIS_SECONDS = 10.0


@asynccontextmanager
async def open_operator_engines(settings: Settings) -> AsyncIterator[OperatorEngines]:
    """Open the database and, if it is set, the key directory. Raises `BadSettings` and `StorageUnavailable`."""
    (database_url,) = require_settings(settings, "database_url")
    async with AsyncExitStack() as stack:
        engine = open_engine(database_url)
        stack.push_async_callback(engine.dispose)
        directory = None
        if settings.redis_url is not None:
            directory = await open_redis_key_directory(
                settings.redis_url, follow=False, seconds=_REDIS_SECONDS
            )
            stack.push_async_callback(directory.close)
        keys = None if settings.variables_key is None else read_sealing_keys(settings.variables_key)
        address = (settings.public_url or "").rstrip("/")
        yield OperatorEngines(open_sessions(engine), directory, keys, address)
