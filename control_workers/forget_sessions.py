"""Deletes ended sessions, used and expired sign-in links, and expired counts of sign-in attempts."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta

from sqlalchemy import delete, or_

from control_domain.accounts.second_person import DOUBT
from control_domain.database.engine import Sessions
from control_domain.database.run_periodically import run_periodically
from control_domain.sign_in.attempt_limits import forget_attempts
from control_domain.tables.sign_in import SignInLink, SignInSession

logger = logging.getLogger(__name__)

RETENTION = timedelta(days=60)
"""How long a session is kept after it has ended. During this time, its network counts as known when the person signs
in again."""
_EVERY_SECONDS = 3600.0


async def forget_old_sessions(sessions: Sessions, now: datetime) -> None:
    """Delete rows that sign-in no longer needs. Used links are kept for a while, because `check_second_person` reads
    them."""
    async with sessions() as session, session.begin():
        is_old = or_(SignInSession.expires_at < now - RETENTION, SignInSession.revoked_at < now - RETENTION)
        await session.execute(delete(SignInSession).where(is_old))
        await session.execute(delete(SignInLink).where(SignInLink.expires_at < now - DOUBT))
        await forget_attempts(session, now)


async def forget_sessions_periodically(
    sessions: Sessions, stop: asyncio.Event, *, every: float = _EVERY_SECONDS
) -> None:
    """Delete old sessions, links and counts of attempts every hour, until `stop` is set."""
    await run_periodically(
        lambda: forget_old_sessions(sessions, datetime.now(UTC)),
        stop,
        every=every,
        logger=logger,
        outage="old sessions cannot be deleted: the database is unreachable",
        fault="old sessions could not be deleted",
    )
