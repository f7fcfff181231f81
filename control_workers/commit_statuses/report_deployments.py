"""Tells Git hosts what becomes of the commits that webhooks have told of. A restart loses nothing, and tells nothing
twice but what a process was telling as it was killed."""

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
from git_hosts.commit_statuses import CommitStatusClient, State, StatusRefused, StatusUnavailable

logger = logging.getLogger(__name__)

_SHORTEST_PAUSE, _LONGEST_PAUSE = 2.0, 300.0
# As long as GitHub's longest limit; a host that wants more is asked again all the same.
_LONGEST_WANTED = 3600.0

Hosts = Mapping[str, CommitStatusClient]
"""By the kind of their repositories."""
Reported = State | Literal["refused"]


async def note_reported(sessions: Sessions, one: Unreported, reported: Reported) -> None:
    """Write down what the host was told last, unless somebody else has told it more meanwhile.

    Other control planes may tell the same. A `pending` that was slow may have come behind their end of the deployment:
    it is written down whatever they have told, and so the end is told again.
    """
    is_last = true() if reported == "pending" else Deployment.reported.is_not_distinct_from(one.reported)
    async with sessions() as session, session.begin():
        await session.execute(
            update(Deployment)
            .where(Deployment.id == one.deployment_id, is_last)
            .values(reported=reported, reported_context=one.status.context)
            .execution_options(synchronize_session=False)
        )


async def note_context(sessions: Sessions, one: Unreported) -> None:
    """Store the name of the status before the first report of a deployment to the host: the answer may be lost, and the
    environment removed before the next attempt."""
    async with sessions() as session, session.begin():
        await session.execute(
            update(Deployment)
            .where(Deployment.id == one.deployment_id, Deployment.reported_context.is_(None))
            .values(reported_context=one.status.context)
            .execution_options(synchronize_session=False)
        )


@dataclass(slots=True)
class _Patience:
    """How long a host that is away is left alone. A restart asks it at once."""

    failures: int = 0
    until: datetime | None = None

    def lasts(self, now: datetime) -> bool:
        return self.until is not None and now < self.until

    def grow(self, wanted: float | None, now: datetime) -> None:
        # Twenty doublings at most: those of days would be more than a float holds.
        grown = min(_SHORTEST_PAUSE * 2.0 ** min(self.failures, 20), _LONGEST_PAUSE)
        seconds = max(grown, min(wanted or 0.0, _LONGEST_WANTED))
        self.failures += 1
        self.until = now + timedelta(seconds=seconds)


class Reporter:
    """Tells the hosts, round by round; there may be one in each control plane."""

    def __init__(
        self, sessions: Sessions, hosts: Hosts, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._sessions = sessions
        self._hosts = hosts
        self._clock = clock
        self._patience = {kind: _Patience() for kind in hosts}
        self._in_vain: dict[int, int] = {}

    async def report(self, stop: asyncio.Event) -> None:
        """One round, ended early by `stop`. Raises what the database raises."""
        kinds = [kind for kind in self._hosts if not self._is_left_alone(kind)]
        if not kinds:
            return
        async with self._sessions() as session:
            found = await find_unreported(session, kinds, self._clock())
        # One that a host is away for again and again must not hold up all others.
        found.sort(key=lambda one: self._in_vain.get(one.deployment_id, 0))
        for one in found:
            if stop.is_set():
                return
            if not self._is_left_alone(one.kind):
                await self._report(one)

    def _is_left_alone(self, kind: str) -> bool:
        return self._patience[kind].lasts(self._clock())

    async def _report(self, one: Unreported) -> None:
        reported: Reported = one.status.state
        if not one.has_context:
            await note_context(self._sessions, one)
        try:
            await self._hosts[one.kind].send_status(one.status)
        except StatusUnavailable as error:
            self._put_off(one, error)
            return
        except StatusRefused as error:
            logger.warning("%s is not told of deployment %d: %s", one.kind, one.deployment_id, error)
            reported = "refused"
        self._patience[one.kind] = _Patience()
        self._in_vain.pop(one.deployment_id, None)
        await note_reported(self._sessions, one, reported)

    def _put_off(self, one: Unreported, error: StatusUnavailable) -> None:
        patience = self._patience[one.kind]
        if patience.failures == 0:
            logger.warning("%s is told of deployments later: %s", one.kind, error)
        self._in_vain[one.deployment_id] = self._in_vain.get(one.deployment_id, 0) + 1
        patience.grow(error.retry_after, self._clock())
