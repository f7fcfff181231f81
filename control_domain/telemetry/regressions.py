"""Finds when resolved groups of exceptions regressed.

A group that was resolved while a release was live regresses when a newer release of the same service raises it: the
releases of the exceptions are compared with the one that was live when the group was resolved.

- The release of an exception is the release that it names (`service.version`) if a deployment of that release was
recorded, or else the release that was live at its time.
- A release is newer if its first deployment was later. Exceptions of the same release, and of older ones (after a
  rollback too), only count.
- The clock of a sender may be ahead. An exception occurred no later than it was received, so an exception that was
received before the group was resolved is not a regression.
- If no deployment was recorded when the group was resolved, every later exception is a regression.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from control_domain.telemetry.releases import Deployments


@dataclass(frozen=True, slots=True)
class Seen:
    """An exception of a resolved group: the first one of its service and version between two deployments."""

    service: str
    version: str
    """Empty if the exception names no version."""
    at: datetime


def find_regressions(
    resolved: Mapping[str, datetime], deployments: Deployments, seen: Iterable[tuple[str, Seen]]
) -> Mapping[str, datetime]:
    """Return when each resolved group first regressed; groups that have not regressed are left out.

    `resolved`: when each group was resolved. `seen`: exceptions with their groups. With thousands of deployments and
    services this takes seconds.
    """
    by_service: dict[str, list[tuple[str, Seen]]] = {}
    for group, each in seen:
        if each.at > resolved[group]:
            service = each.service if each.service in deployments.services else ""
            by_service.setdefault(service, []).append((group, each))
    found: dict[str, datetime] = {}
    for service, of_service in by_service.items():
        releases = deployments.releases_of((service,))
        for group, each in of_service:
            resolved_rank = releases.rank_at(resolved[group])
            rank = releases.rank_of(each.version) if each.version else None
            if rank is None:
                rank = releases.rank_at(each.at)
            if resolved_rank is None or (rank is not None and rank > resolved_rank):
                found[group] = min(each.at, found.get(group, each.at))
    return found


def can_have_regressed(resolved_at: datetime, deployments: Deployments) -> bool:
    """Return False if no exception can be a regression: all services were deployed before the group was resolved, and
    none was deployed since then."""
    first = deployments.first_of_all
    return first is None or first > resolved_at or deployments.times[-1] > resolved_at
