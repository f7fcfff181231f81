"""Heartbeats of scheduled jobs and their runs: `/v1/monitors/heartbeats`."""

from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from control_api.management.monitor_lists import MonitorQuery, read_filters
from control_api.operations.access import At, at, at_account
from control_api.operations.bodies import json_body
from control_api.operations.pages import PageOf, PageQuery, read_pages, read_sorted_pages
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.roles import Right
from control_domain.monitors import listing, manage_heartbeats
from control_domain.monitors.change_heartbeat import lock_heartbeat
from control_domain.monitors.describe import (
    HeartbeatDocument,
    ListedHeartbeat,
    NextRuns,
    RemovedMonitor,
    RunDocument,
    RunWithOutput,
    StateName,
    describe_heartbeat,
    describe_listed_heartbeat,
    describe_removed,
    describe_run,
    describe_run_with_output,
)
from control_domain.monitors.describe_keys import (
    CreatedHeartbeat,
    describe_new_monitor_key,
    describe_ping_key,
)
from control_domain.monitors.find import FoundHeartbeat, find_heartbeat
from control_domain.monitors.heartbeat_log import LogEntryDocument, LogKey, describe_log_entry, list_log
from control_domain.monitors.monitor_keys import add_monitor_key
from control_domain.monitors.next_runs import list_next_runs
from control_domain.monitors.operations import HeartbeatSettings, get_settings
from control_domain.monitors.ping_keys import add_ping_key
from control_domain.monitors.recent_runs import MAX_RECENT_RUNS, list_recent_runs
from control_domain.monitors.settings import (
    Cron,
    FailuresBeforeDown,
    GraceSeconds,
    HeartbeatChanges,
    MaxRuntimeSeconds,
    MonitorName,
    PeriodSeconds,
    Timezone,
)
from control_domain.projects.find import DeployTarget, find_environment
from control_domain.tables.accounts import Account
from pipeline_contracts.errors import Conflict, DeployNotAllowed, NameTaken, NotFound
from pipeline_contracts.schedules import Schedule

operations = OperationRouter("Monitoring")

_Read = Annotated[At[FoundHeartbeat], at(find_heartbeat, "heartbeat", "monitoring:read", Right.READ)]
_Change = Annotated[At[FoundHeartbeat], at(find_heartbeat, "heartbeat", "monitoring:write", Right.DEPLOY)]


class HeartbeatQuery(MonitorQuery, kw_only=True):
    """The page and the filters of the list of heartbeats."""

    state: Annotated[StateName | None, Meta(description="Only heartbeats in this state.")] = None
    recent_runs: Annotated[
        int,
        Meta(
            ge=0,
            le=MAX_RECENT_RUNS,
            description="The number of newest runs that are listed with each heartbeat.",
        ),
    ] = 0


class NextRunsQuery(Struct, kw_only=True):
    """A schedule that is not saved yet."""

    cron: Annotated[str, Meta(min_length=1, max_length=200, description="The cron expression: five fields.")]
    timezone: Timezone = "UTC"
    count: Annotated[int, Meta(ge=1, le=10, description="The number of due times to list.")] = 3


class CreateHeartbeat(Struct, kw_only=True):
    """A new heartbeat. Either `period_seconds` or `cron` is required."""

    name: MonitorName
    period_seconds: PeriodSeconds | None = None
    cron: Cron | None = None
    timezone: Timezone = "UTC"
    grace_seconds: GraceSeconds = 300
    max_runtime_seconds: MaxRuntimeSeconds = 3600
    failures_before_down: FailuresBeforeDown = 1


class UpdateHeartbeat(Struct, kw_only=True):
    """The settings of a heartbeat that change. `period_seconds` replaces `cron`, and vice versa."""

    name: MonitorName | None = None
    period_seconds: PeriodSeconds | None = None
    cron: Cron | None = None
    timezone: Timezone | None = None
    grace_seconds: GraceSeconds | None = None
    max_runtime_seconds: MaxRuntimeSeconds | None = None
    failures_before_down: FailuresBeforeDown | None = None


def _settings(document: HeartbeatDocument) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name in UpdateHeartbeat.__struct_fields__}


@operations.get("/v1/monitors/heartbeats", problems=[NotFound, DeployNotAllowed])
async def list_heartbeats(
    at: Annotated[At[Account], at_account("monitoring:read")],
    params: Annotated[HeartbeatQuery, query(HeartbeatQuery)],
) -> PageOf[ListedHeartbeat]:
    """List heartbeats.

    The heartbeats of all projects in which you have a role, the newest first; with `recent_runs` also the newest runs
    of each, of the last 7 days.
    """
    pages = read_pages(at, params, "heartbeats")
    filters = await read_filters(at, params, params.state)
    found, has_more = await listing.list_heartbeats(at.session, at.caller, filters, pages.page)
    shows_runs = params.recent_runs > 0
    runs = await list_recent_runs(at.session, [each.monitor for each in found], params.recent_runs)
    return pages.answer(
        [
            describe_listed_heartbeat(each, runs.get(each.monitor.id, []) if shows_runs else None)
            for each in found
        ],
        found[-1].monitor.id if has_more else None,
    )


@operations.get("/v1/monitors/next-runs")
async def read_next_runs(
    at: Annotated[At[Account], at_account("monitoring:read")],
    params: Annotated[NextRunsQuery, query(NextRunsQuery)],
) -> NextRuns:
    """Read when a schedule is due.

    Works for any cron expression, before a heartbeat uses it. If the clock skips the hour of a run, the run is due
    right after the skipped hour.
    """
    runs = list_next_runs(params.cron, params.timezone, params.count, at.now)
    return {"cron": params.cron, "timezone": params.timezone, "runs": list(runs)}


@operations.post(
    "/v1/environments/{environment}/heartbeats", status=201, problems=[NameTaken, Conflict], secret=True
)
async def create_heartbeat(
    at: Annotated[At[DeployTarget], at(find_environment, "environment", "monitoring:write", Right.DEPLOY)],
    body: Annotated[CreateHeartbeat, json_body(CreateHeartbeat)],
) -> CreatedHeartbeat:
    """Create a heartbeat.

    It waits for its first signal. The answer has a monitor key, which is not shown again, and a ping key, which can be
    read later.
    """
    settings = HeartbeatSettings(
        body.name,
        Schedule(body.period_seconds, body.cron, body.timezone),
        body.grace_seconds,
        body.max_runtime_seconds,
        body.failures_before_down,
    )
    found = await manage_heartbeats.add_heartbeat(at.session, at.found, settings, at.actor, at.now)
    key, secret = await add_monitor_key(at.session, found, None, at.actor, at.now)
    ping_key = await add_ping_key(at.session, found, at.sealing_keys, at.actor, at.now)
    at.publish_after_commit([key.digest, ping_key.row.digest])
    at.publish_names_after_commit(found.environment.public_id, found.monitor.name)
    return {
        **describe_heartbeat(found),
        "key": describe_new_monitor_key(key, secret, at.now),
        "ping_key": describe_ping_key(ping_key, at.now),
    }


@operations.get("/v1/monitors/heartbeats/{heartbeat}", etag=_settings)
async def read_heartbeat(at: _Read) -> HeartbeatDocument:
    """Read a heartbeat."""
    return describe_heartbeat(at.found)


@operations.patch("/v1/monitors/heartbeats/{heartbeat}", etag=_settings, problems=[NameTaken])
async def update_heartbeat(
    at: _Change, body: Annotated[UpdateHeartbeat, json_body(UpdateHeartbeat)]
) -> HeartbeatDocument:
    """Change settings of a heartbeat.

    The state is computed again at once. The number of consecutive failures stays, and only a success ends `down`.
    """
    await _lock_and_check(at)
    changes = HeartbeatChanges(**msgspec.structs.asdict(body))
    former_name = at.found.monitor.name
    await manage_heartbeats.update_heartbeat(at.session, at.found, changes, at.actor, at.now)
    if body.name is not None:
        # Also for the name that it has already: the edges may not have been informed the first time.
        at.publish_names_after_commit(at.found.environment.public_id, former_name, at.found.monitor.name)
    return describe_heartbeat(at.found)


@operations.delete("/v1/monitors/heartbeats/{heartbeat}", checks_if_match=True)
async def delete_heartbeat(at: _Change) -> RemovedMonitor:
    """Remove a heartbeat.

    Removes it with its keys and runs. No edge accepts its keys after 5 seconds.
    """
    await _lock_and_check(at)
    digests = await manage_heartbeats.delete_heartbeat(at.session, at.found, at.actor, at.now)
    at.revoke_after_commit(digests)
    at.publish_names_after_commit(at.found.environment.public_id, at.found.monitor.name)
    return describe_removed(at.found, len(digests))


@operations.post("/v1/monitors/heartbeats/{heartbeat}/pause")
async def pause_heartbeat(at: _Change) -> HeartbeatDocument:
    """Pause a heartbeat.

    Its signals are recorded but do not change its state. A heartbeat that is already paused stays unchanged.
    """
    await manage_heartbeats.pause_heartbeat(at.session, at.found, True, at.actor, at.now)
    return describe_heartbeat(at.found)


@operations.post("/v1/monitors/heartbeats/{heartbeat}/resume")
async def resume_heartbeat(at: _Change) -> HeartbeatDocument:
    """Resume a heartbeat.

    It then waits for its next signal, like a new heartbeat. A heartbeat that is not paused stays unchanged.
    """
    await manage_heartbeats.pause_heartbeat(at.session, at.found, False, at.actor, at.now)
    return describe_heartbeat(at.found)


@operations.get("/v1/monitors/heartbeats/{heartbeat}/runs")
async def list_heartbeat_runs(
    at: _Read, params: Annotated[PageQuery, query(PageQuery)]
) -> PageOf[RunDocument]:
    """List the runs of a heartbeat.

    The runs of the last 7 days by the time of their first signal, the newest first.
    """
    pages = read_sorted_pages(at, params, f"runs of heartbeat {at.found.monitor.id}")
    after = None if pages.after is None else listing.RunKey.read(pages.after)
    runs, has_more = await listing.list_runs(at.session, at.found.monitor, pages.limit, after)
    return pages.answer(
        [describe_run(listed.run, listed.has_output) for listed in runs],
        str(runs[-1].key) if has_more else None,
    )


@operations.get("/v1/monitors/heartbeats/{heartbeat}/runs/{run}")
async def read_heartbeat_run(at: _Read) -> RunWithOutput:
    """Read a run of a heartbeat, with its output."""
    try:
        run_id = str(UUID(at.text("run")))
    except ValueError:
        raise NotFound("The ID of a run is a UUID.") from None
    return describe_run_with_output(await listing.find_run(at.session, at.found.monitor, run_id))


@operations.get("/v1/monitors/heartbeats/{heartbeat}/log")
async def list_heartbeat_log(
    at: _Read, params: Annotated[PageQuery, query(PageQuery)]
) -> PageOf[LogEntryDocument]:
    """List what the job has logged.

    The texts that it has sent to the `/log` of its ping URL: the newest 100 of the last 7 days, the newest first.
    """
    pages = read_sorted_pages(at, params, f"log of heartbeat {at.found.monitor.id}")
    after = None if pages.after is None else LogKey.read(pages.after)
    entries, has_more = await list_log(at.session, at.found.monitor, pages.limit, after)
    last = LogKey(entries[-1].received_ms, entries[-1].entry_id) if has_more else None
    return pages.answer([describe_log_entry(entry) for entry in entries], None if last is None else str(last))


async def _lock_and_check(at: At[FoundHeartbeat]) -> None:
    heartbeat = at.found.monitor
    await lock_heartbeat(at.session, heartbeat)
    at.check_if_match({"name": heartbeat.name, **get_settings(heartbeat).columns()})
