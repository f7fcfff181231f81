"""Opens Postgres for the control plane: the URL, the pool and the time limits."""

from typing import Any
from urllib.parse import urlencode

from sqlalchemy import URL, NullPool, event
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from control_domain.database.errors import DatabaseUnavailable, driver_message
from pipeline_contracts.errors import StorageUnavailable

_POOL_SIZE = 5
_POOL_OVERFLOW = 10
# Seconds that a request waits for a connection of the pool, for a new connection, and for a ping.
_POOL_SECONDS = 5.0
_CONNECT_SECONDS = 5.0
_PING_SECONDS = 2.0
# The server cancels a statement after the first limit. The second one is for a server that hangs.
_STATEMENT_SECONDS = 30.0
_CALL_SECONDS = 35.0
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


def open_postgres(url: URL) -> AsyncEngine:
    """Return an engine with a bounded pool and a time limit on every call.

    The URL's query is libpq's (`sslmode`, `sslrootcert`, `host=/run/postgresql`, …). Raises `StorageUnavailable`
    for an `sslmode` that does not exist.
    """
    engine = create_async_engine(
        _driver_url(url),
        pool_size=_POOL_SIZE,
        max_overflow=_POOL_OVERFLOW,
        pool_timeout=_POOL_SECONDS,
        connect_args={
            "async_creator_fn": _connect,
            "timeout": _CONNECT_SECONDS,
            "command_timeout": _CALL_SECONDS,
            "server_settings": {
                "application_name": "pharos",
                "statement_timeout": str(int(_STATEMENT_SECONDS * 1000)),
            },
        },
    )
    # Instead of `pool_pre_ping`, which takes three round trips and waits for a hung server as long as a call.
    event.listen(engine.sync_engine, "checkout", _ping)
    return engine


def open_postgres_for_migrations(engine: AsyncEngine) -> AsyncEngine:
    """Return an engine without a pool and without a time limit on statements: an index may take minutes."""
    return create_async_engine(
        engine.url,
        poolclass=NullPool,
        connect_args={
            "async_creator_fn": _connect,
            "timeout": _CONNECT_SECONDS,
            "server_settings": {"application_name": "pharos migrate", "statement_timeout": "0"},
        },
    )


def _driver_url(url: URL) -> URL:
    query = {key: value if isinstance(value, str) else value[-1] for key, value in url.query.items()}
    if query.get("sslmode", "prefer") not in _SSL_MODES:
        raise StorageUnavailable(
            f"The database URL cannot be used: sslmode is one of {', '.join(_SSL_MODES)}."
        )
    # asyncpg reads the parameters of libpq, such as certificates, from a URL only, so pass them as one.
    dsn = {"dsn": "postgresql://?" + urlencode(query)} if query else {}
    return url.set(drivername="postgresql+asyncpg", query=dsn)


async def _connect(*arguments: Any, **options: Any) -> Any:
    import asyncpg

    try:
        return await asyncpg.connect(*arguments, **options)
    except (OSError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        # SQLAlchemy would not translate the OSError of a refused connection or a timeout.
        raise DatabaseUnavailable(f"The database cannot be reached ({driver_message(error)}).") from error


def _ping(connection: Any, _record: Any, _proxy: Any) -> None:
    import asyncpg

    try:
        connection.run_async(lambda driver: driver.execute("SELECT 1", timeout=_PING_SECONDS))
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        # The pool drops all connections and opens a new one.
        raise InvalidatePoolError(driver_message(error)) from error
