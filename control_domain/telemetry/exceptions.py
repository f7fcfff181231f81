"""Groups of exceptions: combines the column store's figures with people's decisions.

Computations with thousands of deployments run in a thread.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from analytics_queries.store_clock import store_time_ms
from analytics_queries.telemetry.exception_groups import (
    GroupKey,
    GroupTimes,
    group_times,
    newest_samples,
    releases_after,
    seen_groups,
)
from analytics_queries.telemetry.exception_trends import exception_trends
from analytics_queries.telemetry.limited_sql import run_together
from analytics_queries.telemetry.time_range import TimeRange, from_nanoseconds, to_nanoseconds
from control_domain.telemetry.describe_exceptions import (
    ExceptionGroupDetails,
    ExceptionGroupDocument,
    ExceptionPoint,
    describe_group,
    describe_group_details,
    describe_trend,
)
from control_domain.telemetry.regressions import Seen, can_have_regressed, find_regressions
from control_domain.telemetry.releases import Deployments
from control_domain.telemetry.statuses import OPEN, GroupStatus, Status
from pipeline_contracts.errors import NotFound
from storage_backends.column_store.interface import ColumnStore

UNASSIGNED = "none"
_ID_DIGITS = 16
_UNKNOWN = "The environment has no such exceptions, or they are no longer stored."


@dataclass(frozen=True, slots=True)
class Decisions:
    """The database's data about the exceptions of an environment: statuses and deployments."""

    environment_id: str
    """The public ID."""
    statuses: Mapping[str, GroupStatus]
    deployed: Deployments


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """None and empty texts match every group."""

    status: Status | None = None
    assignee: str = ""
    """The ID of a person, or `none`."""
    service: str = ""


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """The beginning of a page, and the moment (by the store's clock) to which all pages of the list belong."""

    snapshot_ms: int
    after: GroupKey | None


def parse_group(text: str) -> int:
    """Return the number of a group's ID. Raises `NotFound` for a text that is not an ID."""
    if len(text) != _ID_DIGITS or not all(character in "0123456789abcdef" for character in text):
        raise NotFound(_UNKNOWN)
    return int(text, 16)


def format_group(group: int) -> str:
    """Return the ID of a group: 16 hexadecimal digits."""
    return f"{group:0{_ID_DIGITS}x}"


async def list_groups(
    store: ColumnStore,
    decisions: Decisions,
    within: TimeRange,
    filters: GroupFilter,
    place: GroupPlace | None,
    limit: int,
    step_s: int = 0,
) -> tuple[Sequence[ExceptionGroupDocument], GroupPlace | None]:
    """Return a page of the groups that were seen in the range, the last seen first, and where the next page begins.
    `step_s`: the length of the steps of their trends; 0 for no trends.

    Raises `StorageUnavailable`.
    """
    place = place or GroupPlace(await store_time_ms(store), None)
    regressed: Mapping[str, datetime] = {}
    if filters.status is not None:
        regressed = await _find_regressions(store, decisions, decisions.statuses)
    only, without = _select_groups(decisions.statuses, regressed, filters)
    rows = await seen_groups(
        store,
        decisions.environment_id,
        within,
        snapshot_ms=place.snapshot_ms,
        service=filters.service,
        only=only,
        without=without,
        after=place.after,
        limit=limit + 1,
    )
    page = rows[:limit]
    groups = [row["group_id"] for row in page]
    if filters.status is None:
        regressed = await _find_regressions(store, decisions, map(format_group, groups))
    times: dict[int, GroupTimes] = {}
    samples: dict[int, dict[str, Any]] = {}
    counts: dict[int, Sequence[tuple[int, int]]] = {}

    async def read_trends() -> None:
        counts.update(
            await exception_trends(store, decisions.environment_id, within, groups if step_s else [], step_s)
        )

    async def read_times() -> None:
        times.update(await group_times(store, decisions.environment_id, groups))

    async def read_samples() -> None:
        last_seen = {row["group_id"]: row["last_seen_ns"] for row in page}
        samples.update(await newest_samples(store, decisions.environment_id, last_seen))

    await run_together(read_trends(), read_times(), read_samples())
    trends = {group: describe_trend(trend, step_s) for group, trend in counts.items()}
    documents = await asyncio.to_thread(_describe_page, decisions, page, times, samples, regressed, trends)
    if len(rows) <= limit:
        return documents, None
    return documents, GroupPlace(place.snapshot_ms, GroupKey(page[-1]["last_seen_ns"], page[-1]["group_id"]))


async def read_group(
    store: ColumnStore, decisions: Decisions, group: int, within: TimeRange
) -> ExceptionGroupDetails:
    """Return a group, counted in the range. Raises `NotFound` and `StorageUnavailable`."""
    times = await require_group(store, decisions.environment_id, group)
    counted = await seen_groups(
        store, decisions.environment_id, within, snapshot_ms=await store_time_ms(store), only=[group], limit=1
    )
    name = format_group(group)
    samples = await newest_samples(store, decisions.environment_id, {group: times.last_seen_ns})
    regressed = await _find_regressions(store, decisions, [name])
    return await asyncio.to_thread(
        describe_group_details,
        name,
        counted[0] if counted else {},
        times,
        samples.get(group, {}),
        decisions.statuses.get(name, OPEN),
        regressed.get(name),
        decisions.deployed,
    )


async def require_group(store: ColumnStore, environment_id: str, group: int) -> GroupTimes:
    """Return when the group was seen first and last. Raises `NotFound` and `StorageUnavailable`."""
    times = (await group_times(store, environment_id, [group])).get(group)
    if times is None:
        raise NotFound(_UNKNOWN)
    return times


async def find_group_regression(store: ColumnStore, decisions: Decisions, group: int) -> datetime | None:
    """Return when a resolved group regressed, or None. Raises `StorageUnavailable`."""
    name = format_group(group)
    return (await _find_regressions(store, decisions, [name])).get(name)


async def find_group_regressions(
    store: ColumnStore, decisions: Decisions, groups: Iterable[str]
) -> Mapping[str, datetime]:
    """Return when each of these groups regressed. Groups that are not resolved or have not regressed are left out.
    Raises `StorageUnavailable`."""
    return await _find_regressions(store, decisions, groups)


async def find_known_groups(
    store: ColumnStore, environment_id: str, groups: Iterable[str]
) -> Collection[str]:
    """Return the groups among these whose exceptions are stored. Raises `StorageUnavailable`."""
    found = await group_times(store, environment_id, [int(group, 16) for group in groups])
    return {format_group(group) for group in found}


def shown_status(status: GroupStatus, regressed_at: datetime | None) -> Status:
    """Return the status that people see: a resolved group that has regressed is open."""
    return "open" if status.status == "resolved" and regressed_at is not None else status.status


def _describe_page(
    decisions: Decisions,
    page: Sequence[Mapping[str, Any]],
    times: Mapping[int, GroupTimes],
    samples: Mapping[int, Mapping[str, Any]],
    regressed: Mapping[str, datetime],
    trends: Mapping[int, Sequence[ExceptionPoint]],
) -> Sequence[ExceptionGroupDocument]:
    documents = []
    for row in page:
        group, last_seen = row["group_id"], row["last_seen_ns"]
        name = format_group(group)
        documents.append(
            describe_group(
                name,
                row,
                times.get(group, GroupTimes(last_seen, last_seen)),
                samples.get(group, {}),
                decisions.statuses.get(name, OPEN),
                regressed.get(name),
                decisions.deployed,
                trends.get(group, ()),
            )
        )
    return documents


def _select_groups(
    statuses: Mapping[str, GroupStatus], regressed: Mapping[str, datetime], filters: GroupFilter
) -> tuple[Sequence[int] | None, Sequence[int]]:
    """Return the groups that the list is limited to (None for no limit), and the groups that it leaves out."""
    only: set[str] | None = None
    without: set[str] = set()
    if filters.assignee == UNASSIGNED:
        without = {group for group, status in statuses.items() if status.assignee is not None}
    elif filters.assignee:
        only = {
            group
            for group, status in statuses.items()
            if status.assignee is not None and status.assignee["id"] == filters.assignee
        }
    shown = {group: shown_status(status, regressed.get(group)) for group, status in statuses.items()}
    if filters.status == "open":
        without |= {group for group, status in shown.items() if status != "open"}
    elif filters.status is not None:
        having = {group for group, status in shown.items() if status == filters.status}
        only = having if only is None else only & having
    if only is not None:
        return [int(group, 16) for group in only - without], []
    return None, [int(group, 16) for group in without]


async def _find_regressions(
    store: ColumnStore, decisions: Decisions, groups: Iterable[str]
) -> Mapping[str, datetime]:
    """Return when each of these groups regressed; groups that are not resolved, or have not regressed, are left out."""
    resolved = {
        group: status.resolved_at
        for group in groups
        if (status := decisions.statuses.get(group)) is not None
        and status.resolved_at is not None
        and can_have_regressed(status.resolved_at, decisions.deployed)
    }
    if not resolved:
        return {}
    earliest = min(resolved.values())
    bounds = {_microseconds(at) for at in decisions.deployed.times if at > earliest}
    after_us = {int(group, 16): _microseconds(at) for group, at in resolved.items()}
    found = await releases_after(store, decisions.environment_id, after_us, sorted(bounds))
    seen = [
        (format_group(each.group), Seen(each.service, each.version, from_nanoseconds(each.first_ns)))
        for each in found
    ]
    return await asyncio.to_thread(find_regressions, resolved, decisions.deployed, seen)


def _microseconds(moment: datetime) -> int:
    return to_nanoseconds(moment) // 1000
