"""The releases of an environment: which one was live at a time, and which of two is newer.

A release is what was deployed, however often: to deploy a version again makes no new release, and a rollback makes an
old one live.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.tables.projects import Environment
from control_domain.tables.recorded_deployments import RecordedDeployment

_MAX_DEPLOYMENTS = 5000
# A shorter prefix names too many commits.
_PREFIX = 7
_COMMIT = re.compile("[0-9a-f]{7,64}")


class Deployed(NamedTuple):
    """A recorded deployment: one that was reported, or Pharos' own."""

    version: str
    """May be a commit, also a shortened one."""
    deployed_at: datetime
    commit: str | None = None
    service: str | None = None
    """None: it is of all services."""


class _Name(NamedTuple):
    text: str
    is_commit: bool
    rank: int


class Releases:
    """The releases that deployments of one service made live. The rank of a release is the position of its first
    deployment: of two releases, the newer one has the higher rank."""

    def __init__(self, deployments: Sequence[Deployed]) -> None:
        """`deployments`: oldest first."""
        self._deployments = deployments
        self._times = [deployment.deployed_at for deployment in deployments]
        self._by_version: dict[str, int] = {}
        self._names: dict[str, list[_Name]] = {}
        """Versions and commits that may name the same commit, by their first characters."""
        self._titles: dict[int, str] = {}
        """Versions that are no commits, by rank."""
        self._ranks = [self._add(place, deployment) for place, deployment in enumerate(deployments)]

    def live_at(self, moment: datetime) -> Deployed | None:
        """Return the last deployment up to this moment, or None before the first one.

        If Pharos' own deployment was reported as well, its version is that of the report instead of a commit.
        """
        rank = self.rank_at(moment)
        if rank is None:
            return None
        live = self._deployments[bisect_right(self._times, moment) - 1]
        return live._replace(version=self._titles.get(rank, live.version))

    def rank_at(self, moment: datetime) -> int | None:
        """Return the rank of the release that was live, or None before the first deployment."""
        count = bisect_right(self._times, moment)
        return self._ranks[count - 1] if count else None

    def rank_of(self, version: str) -> int | None:
        """Return the rank of the release with this version or commit, or None if none was deployed."""
        ranks = [self._by_version.get(version), *self._ranks_of(version.lower(), is_commit=False)]
        return min((rank for rank in ranks if rank is not None), default=None)

    def _add(self, place: int, deployment: Deployed) -> int:
        commit = (deployment.commit or "").lower()
        ranks = [*self._ranks_of(commit, is_commit=True), self.rank_of(deployment.version), place]
        rank = min(each for each in ranks if each is not None)
        self._by_version.setdefault(deployment.version, rank)
        if not commit.startswith(deployment.version.lower()):
            self._titles[rank] = deployment.version
        for text, is_commit in ((commit, True), (deployment.version.lower(), False)):
            if _COMMIT.fullmatch(text):
                self._names.setdefault(text[:_PREFIX], []).append(_Name(text, is_commit, rank))
        return rank

    def _ranks_of(self, text: str, *, is_commit: bool) -> Sequence[int]:
        """Return the ranks of the releases whose commit begins with the text; if that is a commit, also of those whose
        shortened commit or version it begins with."""
        if not _COMMIT.fullmatch(text):
            return []
        return [
            name.rank
            for name in self._names.get(text[:_PREFIX], ())
            if (name.is_commit and name.text.startswith(text)) or (is_commit and text.startswith(name.text))
        ]


def releases_of(deployments: Iterable[Deployed], services: Collection[str]) -> Releases:
    """Return the releases of some services. `deployments`: of all services, oldest first."""
    return Releases([each for each in deployments if each.service is None or each.service in services])


async def read_deployed(session: AsyncSession, environment: Environment) -> Sequence[Deployed]:
    """Return the last 5,000 recorded deployments of the environment, oldest first."""
    query = (
        select(
            RecordedDeployment.version,
            RecordedDeployment.deployed_at,
            RecordedDeployment.commit_sha,
            RecordedDeployment.service,
        )
        .where(RecordedDeployment.environment_id == environment.id)
        .order_by(RecordedDeployment.deployed_at.desc(), RecordedDeployment.id.desc())
        .limit(_MAX_DEPLOYMENTS)
    )
    return [Deployed(*row) for row in reversed((await session.execute(query)).all())]
