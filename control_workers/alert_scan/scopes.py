"""Reads the scopes of environments, and describes groups of exceptions."""

import random
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import select

from analytics_queries.alerts.seen_exceptions import SeenGroup
from control_domain.database.engine import Sessions
from control_domain.tables.projects import Environment, Project
from control_domain.telemetry.exceptions import format_group
from control_workers.alert_scan.conditions import Scope

_AT_ONCE = 5000


MAX_ENVIRONMENTS = 1000
"""Maximum number of environments of an account that one scan reads, because a query contains their
names."""


def choose_some(environments: Collection[str]) -> Sequence[str]:
    """Return at most `MAX_ENVIRONMENTS` of the environments. They are chosen at random, so that all
    are read in time."""
    names = sorted(environments)
    return names if len(names) <= MAX_ENVIRONMENTS else random.sample(names, MAX_ENVIRONMENTS)


async def read_scopes(sessions: Sessions, environments: Collection[str]) -> Mapping[str, Scope]:
    """Return the scopes of environments by public ID. Removed environments are left out."""
    names, found = sorted(environments), {}
    async with sessions() as session:
        for first in range(0, len(names), _AT_ONCE):
            query = (
                select(Environment.public_id, Project.account_id, Project.id, Environment.id)
                .join(Project, Project.id == Environment.project_id)
                .where(Environment.public_id.in_(names[first : first + _AT_ONCE]))
            )
            for name, *scope in await session.execute(query):
                found[name] = Scope(*scope)
    return found


def describe_sample(seen: SeenGroup) -> dict[str, Any]:
    """Return the facts about one exception of a group."""
    return {
        "group": format_group(seen.group),
        "environment": seen.environment,
        "exception": seen.kind,
        "message": seen.message,
        "frame": seen.frame,
        "service": seen.service,
        "count": seen.exceptions,
    }
