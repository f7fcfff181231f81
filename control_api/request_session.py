"""The session of a request, and with it all of its commits."""

import logging
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolExhausted
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.engine import Sessions
from control_domain.database.errors import BrokenReference, DatabaseAway, is_behind, reason
from pipeline_contracts.errors import NotFound, Unavailable

logger = logging.getLogger(__name__)


async def _request_session(request: Request) -> AsyncIterator[AsyncSession]:
    """One request, one transaction: committed when the route has returned, before anything is answered."""
    sessions: Sessions = request.app.state.sessions
    try:
        async with sessions() as session:
            yield session
            await session.commit()
    except DatabaseAway as error:
        logger.warning("%s", error)
        raise Unavailable("The database does not answer now.") from error
    except BrokenReference as error:
        # Everything that a request adds lies in something that was found by its path or its token.
        raise NotFound("The object of this request was removed while the request ran.") from error
    except PoolExhausted as error:
        logger.warning("every connection to the database is in use")
        raise Unavailable("The database has too much to do now.") from error
    except ProgrammingError as error:
        if not is_behind(error):
            raise
        logger.warning(
            "the database is behind this version, run `pharos migrate`: %s", reason(error.orig or error)
        )
        raise Unavailable("The database is being brought to this version.") from error


async def end_transaction(session: AsyncSession) -> None:
    """Commit what was done so far, before something slow; what was read stays readable.

    A column store, or a caller's body, may take seconds. Meanwhile Postgres would keep a connection for the request,
    and SQLite would let nobody write once anything was written.
    """
    await session.commit()


# scope="function": the default scope ends after the answer was sent, and a failing commit would come too late.
Session = Annotated[AsyncSession, Depends(_request_session, scope="function")]
