"""The report on a site, from what was read of it and what the column store has."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from analytics_queries.visits.report_request import Goals, ReportRequest
from analytics_queries.visits.site_report import site_report
from control_domain.sites.describe_report import ReportedGoal, ReportedSite, describe_report
from control_domain.sites.report_query import ReportQuery
from control_domain.tables.sites import Goal, Site
from storage_backends.column_store.interface import ColumnStore


async def make_report(
    store: ColumnStore, site: Site, goals: Sequence[Goal], query: ReportQuery, now: datetime
) -> dict[str, Any]:
    """The document under `data`. Raises `StorageUnavailable`."""
    # Several goals may count the same event or path.
    events = dict.fromkeys(goal.event for goal in goals if goal.event is not None)
    paths = dict.fromkeys(goal.path for goal in goals if goal.path is not None)
    request = ReportRequest(site.id, site.timezone, query.filters, Goals(tuple(events), tuple(paths)), now)
    reported = [ReportedGoal(goal.id, goal.name, goal.event, goal.path) for goal in goals]
    return describe_report(
        ReportedSite(site.id, site.name, site.timezone, reported),
        query.filters,
        await site_report(store, request, query.days),
    )
