"""Reports the deployments of pushed commits to Git hosts as commit statuses.

A restart loses no report. A report is sent twice only if the process is killed while it sends the report.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from sqlalchemy import true, update

from control_domain.database.engine import Sessions
from control_domain.tables.deployments import Deployment
from control_workers.commit_statuses.find_unreported import Unreported, find_unreported
from control_workers.commit_statuses.record_refusals import record_acceptance, record_refusal
from git_hosts.commit_statuses import CommitStatusClient, State, StatusRefused, StatusUnavailable

logger = logging.getLogger(__name__)

_MIN_PAUSE, _MAX_PAUSE = 2.0, 300.0
# The longest time that GitHub's rate limit can last, in seconds. A longer Retry-After is cut to this.
_MAX_RETRY_AFTER = 3600.0

Hosts = Mapping[str, CommitStatusClient]
"""Git hosts, by the kind of their repositories."""
Reported = State | Literal["refused"]


async def store_reported(
    sessions: Sessions,
    unreported: Unreported,
    reported: Reported,
    now: datetime,
    refusal: str | None = None,
) -> None:
    """Store the last reported state, unless another control plane has reported since then. Also record that the host
    refuses commit statuses (`refusal`: the reason) or accepts them again.

    `pending` is always stored: another control plane may have reported the end while this `pending` was slow, and it
    may have reached the host last. Storing `pending` makes the end due again.
    """
    is_current = (
        true() if reported == "pending" else Deployment.reported.is_not_distinct_from(unreported.reported)
    )
    async with sessions() as session, session.begin():
        await session.execute(
            update(Deployment)
            .where(Deployment.id == unreported.deployment_id, is_current)
            .values(reported=reported, reported_context=unreported.status.context)
            .execution_options(synchronize_session=False)
        )
        if refusal is not None:
            await record_refusal(session, unreported, refusal, now)
        else:
            await record_acceptance(session, unreported, now)


async def store_context(sessions: Sessions, unreported: Unreported) -> None:
    """Store the name of the status before the first report of a deployment is sent: the response may be lost, and the
    environment may be removed before the next attempt."""
    async with sessions() as session, session.begin():
        await session.execute(
            update(Deployment)
            .where(Deployment.id == unreported.deployment_id, Deployment.reported_context.is_(None))
            .values(reported_context=unreported.status.context)
            .execution_options(synchronize_session=False)
        )


@dataclass(slots=True)
class _Backoff:
    """Computes growing pauses while a host is unavailable. Kept only in memory."""

    failures: int = 0
    until: datetime | None = None

    def is_active(self, now: datetime) -> bool:
        return self.until is not None and now < self.until

    def extend(self, retry_after: float | None, now: datetime) -> None:
        # At most 20 doublings: after days of failures, a float would overflow.
        pause = min(_MIN_PAUSE * 2.0 ** min(self.failures, 20), _MAX_PAUSE)
        seconds = max(pause, min(retry_after or 0.0, _MAX_RETRY_AFTER))
        self.failures += 1
        self.until = now + timedelta(seconds=seconds)


class Reporter:
    """Sends the commit statuses that are due. Each control plane may run one reporter."""

    def __init__(
        self, sessions: Sessions, hosts: Hosts, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._sessions = sessions
        self._hosts = hosts
        self._clock = clock
        self._backoffs = {kind: _Backoff() for kind in hosts}
        self._failed_attempts: dict[int, int] = {}

    async def report(self, stop: asyncio.Event) -> None:
        """Send the statuses that are due now, until `stop` is set. Raises the errors of the database."""
        kinds = [kind for kind in self._hosts if not self._is_backing_off(kind)]
        if not kinds:
            return
        async with self._sessions() as session:
            found = await find_unreported(session, kinds, self._clock())
        # Statuses whose report failed before come last, so that they do not block the others.
        found.sort(key=lambda unreported: self._failed_attempts.get(unreported.deployment_id, 0))
        for unreported in found:
            if stop.is_set():
                return
            if not self._is_backing_off(unreported.kind):
                await self._report(unreported)

    def _is_backing_off(self, kind: str) -> bool:
        return self._backoffs[kind].is_active(self._clock())

    async def _report(self, unreported: Unreported) -> None:
        reported: Reported = unreported.status.state
        refusal = None
        if not unreported.has_context:
            await store_context(self._sessions, unreported)
        try:
            await self._hosts[unreported.kind].send_status(unreported.status)
        except StatusUnavailable as error:
            self._postpone(unreported, error)
            return
        except StatusRefused as error:
            logger.warning(
                "%s refuses the commit status of deployment %d: %s",
                unreported.kind,
                unreported.deployment_id,
                error,
            )
            reported, refusal = "refused", str(error)
        self._backoffs[unreported.kind] = _Backoff()
        self._failed_attempts.pop(unreported.deployment_id, None)
        await store_reported(self._sessions, unreported, reported, self._clock(), refusal)

    def _postpone(self, unreported: Unreported, error: StatusUnavailable) -> None:
        backoff = self._backoffs[unreported.kind]
        if backoff.failures == 0:
            logger.warning("commit statuses for %s are delayed: %s", unreported.kind, error)
        self._failed_attempts[unreported.deployment_id] = (
            self._failed_attempts.get(unreported.deployment_id, 0) + 1
        )
        backoff.extend(error.retry_after, self._clock())
