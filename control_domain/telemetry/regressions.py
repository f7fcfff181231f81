"""When has a resolved group of exceptions regressed?

A group that was resolved while a release was live regresses when a newer release of the same service raises it: the
releases of the exceptions are compared with the one that was live when the group was resolved.

- The release of an exception is the one that it names (`service.version`) if a deployment of it was recorded, or else
  the one that was live at its time.
- A release is newer if its first deployment was later. Exceptions of the same release, and of older ones (after a
  rollback too), only count.
- If no deployment was recorded when the group was resolved, every later exception is a regression.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from control_domain.telemetry.releases import Deployed, releases_of


@dataclass(frozen=True, slots=True)
class Seen:
    """An exception of a resolved group: the first one of its service and version between two deployments."""

    service: str
    version: str
    """Empty: it names none."""
    at: datetime


def find_regression(
    resolved_at: datetime, deployments: Sequence[Deployed], seen: Iterable[Seen]
) -> datetime | None:
    """Return when a group that was resolved regressed first, or None. `deployments`: those of its environment, oldest
    first."""
    by_service: dict[str, list[Seen]] = {}
    for each in seen:
        if each.at > resolved_at:
            by_service.setdefault(each.service, []).append(each)
    found: list[datetime] = []
    for service, of_service in by_service.items():
        releases = releases_of(deployments, (service,))
        resolved_rank = releases.rank_at(resolved_at)
        for each in of_service:
            rank = releases.rank_of(each.version) if each.version else None
            if rank is None:
                rank = releases.rank_at(each.at)
            if resolved_rank is None or (rank is not None and rank > resolved_rank):
                found.append(each.at)
    return min(found, default=None)


def can_have_regressed(resolved_at: datetime, deployments: Sequence[Deployed]) -> bool:
    """Return False if no exception can be a regression: all services were deployed before the group was resolved, and
    none since."""
    is_known = any(each.service is None and each.deployed_at <= resolved_at for each in deployments)
    return not is_known or any(each.deployed_at > resolved_at for each in deployments)
