"""Exceptions that are new or frequent, services that fail or are slow, and visits, from the column store."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from analytics_queries.overview.attention import (
    DAY,
    HOUR,
    SeenException,
    Service,
    ServiceLoad,
    SiteVisits,
    exceptions_of_environments,
    first_seen,
    recent_services,
    seen_exceptions,
    site_visits,
    usual_services,
)
from analytics_queries.telemetry.limited_sql import run_together
from analytics_queries.telemetry.time_range import from_nanoseconds, to_nanoseconds
from control_domain.accounts.operations import Caller
from control_domain.overview.attention_items import MAX_ITEMS, AttentionKind, Found, Section, make_item
from control_domain.overview.visible import Visible
from control_domain.projects.find import in_visible_projects
from control_domain.tables.exceptions import ExceptionStatus
from control_domain.tables.projects import Environment, Project
from control_domain.telemetry.exceptions import format_group
from pipeline_contracts.alert_kinds import Severity
from pipeline_contracts.times import format_time
from storage_backends.column_store.interface import ColumnStore

_SPIKE_LEAST = 20
_SPIKE_TIMES = 5
_HOURS_BEFORE = DAY / HOUR - 1
_LEAST_REQUESTS = 20
_LEAST_ERRORS = 5
_ERROR_RATE = 0.05
_CRITICAL_ERROR_RATE = 0.25
_SLOW_TIMES = 2.0
_SLOW_LEAST_MS = 250.0

DecidedGroups = Collection[tuple[str, str]]
"""Resolved and ignored groups, as pairs of the environment's public ID and the group's ID."""


@dataclass(slots=True)
class StoredFigures:
    """The column store's figures of the visible environments and sites."""

    exceptions: Sequence[SeenException] = ()
    first_us: Mapping[tuple[str, int], int] = field(default_factory=dict)
    exceptions_of: Mapping[str, int] = field(default_factory=dict)
    """Exceptions of the last 24 hours by environment."""
    services: Mapping[Service, ServiceLoad] = field(default_factory=dict)
    """Requests of the last hour."""
    usual: Mapping[Service, ServiceLoad] = field(default_factory=dict)
    """Requests of the 24 hours before."""
    visits: Mapping[int, SiteVisits] = field(default_factory=dict)


async def read_stored_figures(
    store: ColumnStore, visible: Visible, now: datetime, *, has_telemetry: bool, has_sites: bool
) -> StoredFigures:
    """Return the figures that the caller may read. Raises `StorageUnavailable`."""
    environments = visible.environment_ids if has_telemetry else []
    figures = StoredFigures()

    async def read_exceptions() -> None:
        figures.exceptions = await seen_exceptions(store, environments, now)
        figures.first_us = await first_seen(store, figures.exceptions)

    async def count_exceptions() -> None:
        figures.exceptions_of = await exceptions_of_environments(store, environments, now)

    async def read_services() -> None:
        figures.services = await recent_services(store, environments, now)

    async def read_usual_services() -> None:
        figures.usual = await usual_services(store, environments, now)

    async def read_visits() -> None:
        figures.visits = await site_visits(
            store, [site.id for site in visible.sites] if has_sites else [], now
        )

    await run_together(
        read_exceptions(), read_services(), read_usual_services(), count_exceptions(), read_visits()
    )
    return figures


async def read_decided_groups(session: AsyncSession, caller: Caller) -> DecidedGroups:
    """Return the groups of exceptions that somebody resolved or ignored."""
    # Account scope: `in_visible_projects` is bound to the account.
    query = (
        select(Environment.public_id, ExceptionStatus.group_id)
        .join(Environment, Environment.id == ExceptionStatus.environment_id)
        .join(Project, Project.id == Environment.project_id)
        .where(ExceptionStatus.status != "open", *in_visible_projects(caller))
    )
    return {(environment, group) for environment, group in await session.execute(query)}


def find_exceptions(
    figures: StoredFigures, visible: Visible, decided: DecidedGroups, now: datetime
) -> Section:
    """Return the groups that are far more frequent in this hour than before, and the groups that appeared within a
    day."""
    found = []
    for each in figures.exceptions:
        name = format_group(each.group)
        if (each.environment, name) in decided:
            continue
        usual = (each.day_count - each.hour_count) / _HOURS_BEFORE
        first_us = figures.first_us.get((each.environment, each.group), each.last_us)
        is_new = first_us >= to_nanoseconds(now - DAY) // 1000
        is_spike = each.hour_count >= max(_SPIKE_LEAST, _SPIKE_TIMES * usual)
        if not is_new and not is_spike:
            continue
        environment = visible.by_public_id[each.environment]
        title = f"{each.kind}: {each.message}" if each.kind else each.message
        item = make_item(
            "exception.spike" if is_spike else "exception.new",
            "critical" if is_spike and environment.type == "production" else "warning",
            title or "Exception without a message",
            format_time(from_nanoseconds(each.last_us * 1000)),
            ("exception", name),
            visible.project_of(environment).summarize(),
            environment.summarize(),
            detail=f"{each.hour_count:,} in the last hour{f' in {each.service}' if each.service else ''}",
            count=each.day_count,
        )
        subjects = [(each.environment, "exception", subject) for subject in (name, f"spike {name}")]
        found.append(Found(item, subjects))
    return Section(found[:MAX_ITEMS], len(found))


def find_services(figures: StoredFigures, visible: Visible, now: datetime) -> Section:
    """Return the services with many failed requests in the last hour, and the services that were far slower than
    before."""
    found = []
    kind: AttentionKind
    severity: Severity
    for (environment_id, service), load in figures.services.items():
        environment = visible.by_public_id[environment_id]
        if load.requests < _LEAST_REQUESTS:
            continue
        usual = figures.usual.get((environment_id, service))
        if load.errors >= _LEAST_ERRORS and load.error_rate >= _ERROR_RATE:
            is_critical = load.error_rate >= _CRITICAL_ERROR_RATE and environment.type == "production"
            kind, severity = "service.errors", "critical" if is_critical else "warning"
            title = f"{load.error_rate:.1%} of the requests of {service} failed"
            detail = f"{load.errors:,} of {load.requests:,} requests in the last hour"
        elif _is_slow(load, usual):
            kind, severity = "service.slow", "warning"
            title = f"{service} is slower than usual"
            before = usual.p95_ms if usual is not None else None
            detail = (
                f"p95 {load.p95_ms or 0:,.0f} ms in the last hour, {before or 0:,.0f} ms in the day before"
            )
        else:
            continue
        item = make_item(
            kind,
            severity,
            title,
            format_time(now),
            ("service", service),
            visible.project_of(environment).summarize(),
            environment.summarize(),
            detail=detail,
        )
        found.append(Found(item, [(environment_id, "service", service)]))
    return Section(found[:MAX_ITEMS], len(found))


def _is_slow(load: ServiceLoad, usual: ServiceLoad | None) -> bool:
    if usual is None or usual.requests < _LEAST_REQUESTS or load.p95_ms is None or usual.p95_ms is None:
        return False
    return load.p95_ms >= max(_SLOW_LEAST_MS, _SLOW_TIMES * usual.p95_ms)
