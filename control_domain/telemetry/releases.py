"""The releases of an environment: finds the release that was live at a time, and the newer of two releases.

A release is one deployed version. Deploying a version again does not make a new release, and a rollback makes an old
release live.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.tables.projects import Environment
from control_domain.tables.recorded_deployments import RecordedDeployment

_MAX_DEPLOYMENTS = 5000
_MAX_MADE = 8
# A shorter text could mean too many commits.
_COMMIT = re.compile("[0-9a-f]{7,64}")


class Deployed(NamedTuple):
    """A recorded deployment: reported through the API, or made by Pharos."""

    version: str
    """The version, which may be a commit, possibly shortened."""
    deployed_at: datetime
    commit: str | None = None
    service: str | None = None
    """None for a deployment of all services."""


class Releases:
    """The releases that deployments of one service made live. The rank of a release is the position of its first
    deployment: of two releases, the newer one has the higher rank."""

    def __init__(self, deployments: Sequence[Deployed]) -> None:
        """`deployments`: oldest first."""
        self._deployments = deployments
        self._times = [deployment.deployed_at for deployment in deployments]
        self._by_version: dict[str, int] = {}
        self._names = _CommitNames((each.commit or "").lower() for each in deployments)
        self._titles: dict[int, str] = {}
        """The ranks of versions that are not commits."""
        self._ranks = [self._add(place, deployment) for place, deployment in enumerate(deployments)]

    def live_at(self, moment: datetime) -> Deployed | None:
        """Return the last deployment up to this moment, or None before the first one.

        If a deployment by Pharos was reported as well, its version is that of the report instead of the commit.
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
        return _least(self._by_version.get(version), self._names.rank_of_longer(version.lower()))

    def _add(self, place: int, deployment: Deployed) -> int:
        commit, version = (deployment.commit or "").lower(), deployment.version.lower()
        names = self._names
        same = _least(
            names.rank_of_longer(commit), names.rank_of_shorter(commit), self.rank_of(deployment.version)
        )
        rank = place if same is None else same
        self._by_version.setdefault(deployment.version, rank)
        if not commit.startswith(version):
            self._titles[rank] = deployment.version
        names.add(commit, rank, is_commit=True)
        names.add(version, rank, is_commit=False)
        return rank


class _CommitNames:
    """Texts that may name a commit, as a whole or shortened, with the ranks of their releases: commits, and versions
    that look like commits.

    Many commits may begin with the same digits, so the result for each text is stored and not searched again.
    """

    def __init__(self, commits: Iterable[str]) -> None:
        """`commits`: all commits that will be added."""
        self._commits = sorted(set(commits))
        self._ranks: dict[str, int] = {}
        """The least rank of each commit that was added."""
        self._longer: dict[str, int | None] = {}
        """The least rank of the commits that begin with a text, for each text that was looked up."""
        self._asked_lengths: set[int] = set()
        self._names: dict[str, int] = {}
        """The least rank of each commit and version that was added."""
        self._name_lengths: set[int] = set()

    def add(self, text: str, rank: int, *, is_commit: bool) -> None:
        if not _COMMIT.fullmatch(text):
            return
        self._names[text] = min(rank, self._names.get(text, rank))
        self._name_lengths.add(len(text))
        if is_commit:
            self._ranks[text] = min(rank, self._ranks.get(text, rank))
            for length in self._asked_lengths:
                if (beginning := text[:length]) in self._longer:
                    self._longer[beginning] = _least(self._longer[beginning], rank)

    def rank_of_longer(self, text: str) -> int | None:
        """Return the least rank of the commits that begin with the text."""
        if not _COMMIT.fullmatch(text):
            return None
        if text not in self._longer:
            # "g" sorts after all hexadecimal digits.
            first, end = bisect_left(self._commits, text), bisect_left(self._commits, text + "g")
            self._longer[text] = _least(*map(self._ranks.get, self._commits[first:end]))
            self._asked_lengths.add(len(text))
        return self._longer[text]

    def rank_of_shorter(self, commit: str) -> int | None:
        """Return the least rank of the shortened commits and versions that the commit begins with."""
        if not _COMMIT.fullmatch(commit):
            return None
        return _least(*(self._names.get(commit[:length]) for length in self._name_lengths))


def _least(*ranks: int | None) -> int | None:
    return min((rank for rank in ranks if rank is not None), default=None)


class Deployments:
    """The recorded deployments of an environment, and the releases that they made live."""

    def __init__(self, recorded: Sequence[Deployed]) -> None:
        """`recorded`: oldest first."""
        self._recorded = recorded
        self.services = frozenset(each.service for each in recorded if each.service is not None)
        """Services that have deployments of their own."""
        self.first_of_all = next((each.deployed_at for each in recorded if each.service is None), None)
        """When a deployment of all services was first recorded."""
        self.times = [each.deployed_at for each in recorded]
        self._made: dict[frozenset[str], Releases] = {}

    def releases_of(self, services: Iterable[str]) -> Releases:
        """Return the releases of some services. This takes about 20 ms for thousands of deployments, unless the result
        for the same services, or for others without deployments of their own, is still cached."""
        own = self.services.intersection(services)
        if own not in self._made:
            if len(self._made) >= _MAX_MADE:
                del self._made[next(iter(self._made))]
            self._made[own] = Releases(
                [each for each in self._recorded if each.service is None or each.service in own]
            )
        return self._made[own]


async def read_deployed(session: AsyncSession, environment: Environment) -> Deployments:
    """Return the last 5,000 recorded deployments of the environment."""
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
    return Deployments([Deployed(*row) for row in reversed((await session.execute(query)).all())])
