"""The engine, the declarative base and the only commit of the control plane."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Depends, Request
from sqlalchemy import MetaData, event
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase

from pipeline_contracts.errors import Unavailable

# Names of constraints are part of the schema: a later migration has to be able to name them.
_NAMING = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """All tables of the control plane."""

    metadata = MetaData(naming_convention=_NAMING)


def open_engine(url: str) -> AsyncEngine:
    """An engine for a database URL of SQLAlchemy (`sqlite+aiosqlite:///…`)."""
    engine = create_async_engine(url)
    if engine.dialect.name == "sqlite":
        event.listen(engine.sync_engine, "connect", _prepare_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA busy_timeout=10000")
    cursor.close()


def open_sessions(engine: AsyncEngine) -> async_sessionmaker[AsyncSession]:
    """Makes sessions whose objects stay readable after the commit."""
    return async_sessionmaker(engine, expire_on_commit=False)


async def _request_session(request: Request) -> AsyncIterator[AsyncSession]:
    """One request, one transaction: committed when the route has returned, before anything is answered."""
    sessions: async_sessionmaker[AsyncSession] = request.app.state.sessions
    try:
        async with sessions() as session, session.begin():
            yield session
    except (OperationalError, InterfaceError) as error:
        raise Unavailable("The database does not answer now.") from error


# scope="function": the default scope ends after the answer was sent, and a failing commit would come too late.
Session = Annotated[AsyncSession, Depends(_request_session, scope="function")]
