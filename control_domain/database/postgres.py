"""Postgres under the control plane: the URL, the pool and the limits in time."""

from typing import Any
from urllib.parse import urlencode

from sqlalchemy import URL, NullPool, event
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from control_domain.database.errors import DatabaseUnavailable, driver_message
from pipeline_contracts.errors import StorageUnavailable

_POOL_SIZE = 5
_POOL_OVERFLOW = 10
# Seconds. A request waits for one connection of the pool, for a new one, and for a ping before it gives up.
_POOL_SECONDS = 5.0
_CONNECT_SECONDS = 5.0
_PING_SECONDS = 2.0
# The server ends a statement after the first; the second is for a server that does not even do that.
_STATEMENT_SECONDS = 30.0
_CALL_SECONDS = 35.0
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


def open_postgres(url: URL) -> AsyncEngine:
    """An engine with a bounded pool, whose calls all end in time.

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
    # Instead of `pool_pre_ping`: that takes three round trips, and waits on a hung server as long as a call may.
    event.listen(engine.sync_engine, "checkout", _ping)
    return engine


def open_postgres_for_migrations(engine: AsyncEngine) -> AsyncEngine:
    """The same database without a pool, and without a limit on a statement's time: an index may take minutes."""
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
    # asyncpg reads libpq's parameters, certificates among them, from a URL only: it gets one of just these.
    dsn = {"dsn": "postgresql://?" + urlencode(query)} if query else {}
    return url.set(drivername="postgresql+asyncpg", query=dsn)


async def _connect(*arguments: Any, **options: Any) -> Any:
    import asyncpg

    try:
        return await asyncpg.connect(*arguments, **options)
    except (OSError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        # SQLAlchemy would let a refused connection and a time-out through as they are, as an OSError.
        raise DatabaseUnavailable(f"The database cannot be reached ({driver_message(error)}).") from error


def _ping(connection: Any, _record: Any, _proxy: Any) -> None:
    import asyncpg

    try:
        connection.run_async(lambda driver: driver.execute("SELECT 1", timeout=_PING_SECONDS))
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        # The pool drops all its connections and makes a new one in this place.
        raise InvalidatePoolError(driver_message(error)) from error
