"""The database session of a request, and the commits of its transaction."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolExhausted
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.engine import Sessions
from control_domain.database.errors import (
    BrokenReference,
    DatabaseUnavailable,
    driver_message,
    is_disk_full,
    is_schema_outdated,
)
from control_domain.storage.disk_reserve import release_reserve
from pipeline_contracts.errors import NotFound, Unavailable

logger = logging.getLogger(__name__)


async def _request_session(request: Request) -> AsyncIterator[AsyncSession]:
    """Yield a session, and commit after the route has returned, before the response is sent."""
    sessions: Sessions = request.app.state.sessions
    try:
        async with sessions() as session:
            yield session
            await session.commit()
    except DatabaseUnavailable as error:
        logger.warning("%s", error)
        if is_disk_full(error):
            if await _release_reserve(request):
                raise Unavailable(
                    "The disk was full, and Pharos has released its reserve. Try again, and free space: delete files, "
                    "or shorten how long data is kept.",
                    retry_after=1,
                ) from error
            raise Unavailable(
                "The disk of the database is full, so nothing can be saved. Delete files on it, and try again."
            ) from error
        raise Unavailable("The database does not answer now.") from error
    except BrokenReference as error:
        # The path or the token has named the parents of all new rows, so one of them was removed meanwhile.
        raise NotFound("The object of this request was removed while the request ran.") from error
    except PoolExhausted as error:
        logger.warning("every connection to the database is in use")
        raise Unavailable("The database is overloaded now.") from error
    except ProgrammingError as error:
        if not is_schema_outdated(error):
            raise
        logger.warning(
            "the database schema is older than this version, run `pharos migrate`: %s",
            driver_message(error.orig or error),
        )
        raise Unavailable("The database is being upgraded to this version.") from error


async def _release_reserve(request: Request) -> bool:
    return await asyncio.to_thread(release_reserve, request.app.state.storage_access.data_folder)


async def end_transaction(session: AsyncSession) -> None:
    """Commit the transaction before a slow operation; loaded objects stay readable.

    The column store or a request body may take seconds. An open transaction would occupy a Postgres connection, and on
    SQLite it would block all other writers.
    """
    await session.commit()


# scope="function": the default scope ends after the response was sent, too late for a failing commit.
Session = Annotated[AsyncSession, Depends(_request_session, scope="function")]
