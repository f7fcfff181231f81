"""Documents of heartbeats, their runs, queues and workers, as the public API returns them."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypedDict, cast

from msgspec import Meta

from analytics_queries.queue_history import QueueStep
from control_domain.monitors.find import FoundHeartbeat, FoundMonitor, FoundQueue
from control_domain.monitors.listing import LOST_MS, ListedRun
from control_domain.projects.describe import (
    EnvironmentSummary,
    ProjectSummary,
    summarize_environment,
    summarize_project,
)
from control_domain.tables.monitors import HeartbeatRun, QueueWorker
from pipeline_contracts.heartbeat_runs import Run
from pipeline_contracts.times import format_time, from_epoch_ms

StateName = Literal["new", "running", "up", "late", "down", "paused", "unknown"]


class HeartbeatDocument(TypedDict):
    """A heartbeat: its settings and its present state. Times are the times at which signals were received."""

    id: int
    name: str
    project: ProjectSummary
    environment: EnvironmentSummary
    state: Annotated[
        StateName,
        Meta(
            description="`new` until the first signal; `unknown` while signals are received but not yet processed."
        ),
    ]
    since: Annotated[str, Meta(description="When the state began.")]
    period_seconds: Annotated[
        int | None, Meta(description="Seconds from one run to the next; null with `cron`.")
    ]
    cron: Annotated[str | None, Meta(description="The cron expression; null with `period_seconds`.")]
    timezone: Annotated[str, Meta(description="The time zone of `cron`.")]
    grace_seconds: int
    max_runtime_seconds: int
    failures_before_down: int
    failures_in_row: int
    open_runs: Annotated[int, Meta(description="The number of runs that have started and not ended.")]
    last_signal_at: str | None
    last_success_at: str | None
    due_at: Annotated[str | None, Meta(description="When the next run has to start.")]
    created_at: str


class RunDocument(TypedDict):
    """One run of a heartbeat's job, without its output."""

    run_id: str
    outcome: Literal["open", "succeeded", "failed", "timed_out"]
    first_signal_at: str
    started_at: str | None
    ended_at: str | None
    duration_seconds: Annotated[
        float | None, Meta(description="Null unless both start and end were reported.")
    ]
    exit_status: int | None
    has_output: bool


class RunWithOutput(RunDocument):
    """One run of a heartbeat's job, with its output."""

    output: Annotated[
        str | None, Meta(description="The output that the job has sent with a ping, up to 10 KiB.")
    ]


class ListedHeartbeat(HeartbeatDocument):
    """A heartbeat in a list."""

    recent_runs: Annotated[
        list[RunDocument] | None,
        Meta(description="The newest runs, the newest first; null without the parameter `recent_runs`."),
    ]


class NextRuns(TypedDict):
    """When a schedule is due."""

    cron: str
    timezone: str
    runs: Annotated[list[str], Meta(description="The next due times, the earliest first.")]


class WorkerCounts(TypedDict):
    """The number of workers of a queue by status."""

    idle: int
    busy: int
    stopped: int
    lost: Annotated[int, Meta(description="Workers that have neither stopped nor reported for 5 minutes.")]


class QueueDocument(TypedDict):
    """A queue with its newest snapshot; without one, the time and the counts are null."""

    id: int
    name: str
    project: ProjectSummary
    environment: EnvironmentSummary
    observed_at: str | None
    pending: int | None
    delayed: int | None
    reserved: int | None
    failed: int | None
    oldest_wait_seconds: int | None
    workers: WorkerCounts
    created_at: str


class QueueTrendPoint(TypedDict):
    """The figures of a queue in one step of its trend."""

    at: Annotated[str, Meta(description="When the step begins.")]
    pending: Annotated[float | None, Meta(description="The average; null without a snapshot.")]
    oldest_wait_seconds: Annotated[int | None, Meta(description="The longest.")]
    jobs_started: int


class ListedQueue(QueueDocument):
    """A queue in a list."""

    trend: Annotated[
        list[QueueTrendPoint] | None,
        Meta(
            description="Up to 31 steps that have reports; null without the parameter `trend`, and while "
            "the column store does not answer."
        ),
    ]


class QueuePoint(QueueTrendPoint):
    """The figures of a queue in one step of its history."""

    most_pending: int | None
    delayed: Annotated[float | None, Meta(description="The average.")]
    reserved: Annotated[float | None, Meta(description="The average.")]
    failed: Annotated[int | None, Meta(description="The value in the last snapshot of the step.")]
    workers: Annotated[
        int,
        Meta(description="The number of workers that reported, without those that reported that they stop."),
    ]


class QueueSeriesDocument(TypedDict):
    """The history of a queue."""

    step_seconds: float
    points: Annotated[list[QueuePoint], Meta(description="Steps without a report are left out.")]


class WorkerDocument(TypedDict):
    """A worker of a queue, after its newest update."""

    worker_id: str
    status: Annotated[
        Literal["idle", "busy", "stopped", "lost"],
        Meta(
            description="`lost`: the worker has neither stopped nor reported for 5 minutes. Workers "
            "are listed for 30 days."
        ),
    ]
    job_id: str | None
    sequence: int
    last_report_at: str


class RemovedMonitor(TypedDict):
    """A heartbeat or a queue that was removed."""

    id: int
    name: str
    keys: Annotated[int, Meta(description="The number of keys that were removed with it.")]


def describe_heartbeat(found: FoundHeartbeat) -> HeartbeatDocument:
    heartbeat, state = found.monitor, found.state
    return {
        "id": heartbeat.id,
        "name": heartbeat.name,
        "project": summarize_project(found.project),
        "environment": summarize_environment(found.environment),
        "state": cast(StateName, state.state),
        "since": format_time(from_epoch_ms(state.since_ms)),
        "period_seconds": heartbeat.period_seconds,
        "cron": heartbeat.cron,
        "timezone": heartbeat.timezone,
        "grace_seconds": heartbeat.grace_seconds,
        "max_runtime_seconds": heartbeat.max_runtime_seconds,
        "failures_before_down": heartbeat.failures_before_down,
        "failures_in_row": state.failures_in_row,
        "open_runs": state.open_runs,
        "last_signal_at": _format_ms(state.last_signal_ms),
        "last_success_at": _format_ms(state.last_success_ms),
        "due_at": _format_ms(state.due_ms),
        "created_at": format_time(heartbeat.created_at),
    }


def describe_run(row: HeartbeatRun, has_output: bool) -> RunDocument:
    run = Run(row.run_id, row.first_ms, row.started_ms, row.succeeded_ms, row.failed_ms, row.timed_out_ms)
    duration = run.duration_ms
    return {
        "run_id": run.run_id,
        "outcome": cast(Any, run.outcome.replace(" ", "_")),
        "first_signal_at": format_time(from_epoch_ms(run.first_ms)),
        "started_at": _format_ms(run.started_ms),
        "ended_at": _format_ms(run.ended_ms),
        "duration_seconds": None if duration is None else duration / 1000,
        "exit_status": row.exit_status,
        "has_output": has_output,
    }


def describe_listed_heartbeat(
    found: FoundHeartbeat, recent_runs: Sequence[ListedRun] | None
) -> ListedHeartbeat:
    """`recent_runs`: None if they were not read."""
    runs = None if recent_runs is None else [describe_run(each.run, each.has_output) for each in recent_runs]
    return {**describe_heartbeat(found), "recent_runs": runs}


def describe_run_with_output(row: HeartbeatRun) -> RunWithOutput:
    return {**describe_run(row, row.output is not None), "output": row.output}


def describe_queue(found: FoundQueue, workers: Mapping[str, int]) -> QueueDocument:
    """`workers`: their number by status."""
    queue, state = found.monitor, found.state
    return {
        "id": queue.id,
        "name": queue.name,
        "project": summarize_project(found.project),
        "environment": summarize_environment(found.environment),
        "observed_at": None if state is None else _format_ms(state.observed_us // 1000),
        "pending": None if state is None else state.pending,
        "delayed": None if state is None else state.delayed,
        "reserved": None if state is None else state.reserved,
        "failed": None if state is None else state.failed,
        "oldest_wait_seconds": None if state is None else state.oldest_wait_seconds,
        "workers": {
            "idle": workers.get("idle", 0),
            "busy": workers.get("busy", 0),
            "stopped": workers.get("stopped", 0),
            "lost": workers.get("lost", 0),
        },
        "created_at": format_time(queue.created_at),
    }


def describe_listed_queue(document: QueueDocument, steps: Sequence[QueueStep] | None) -> ListedQueue:
    """`steps`: None if they were not read."""
    return {**document, "trend": None if steps is None else [_describe_step(step) for step in steps]}


def describe_queue_series(steps: Sequence[QueueStep], step_ms: int) -> QueueSeriesDocument:
    points: list[QueuePoint] = [
        {
            **_describe_step(step),
            "most_pending": step.most_pending,
            "delayed": step.delayed,
            "reserved": step.reserved,
            "failed": step.failed,
            "workers": step.workers,
        }
        for step in steps
    ]
    return {"step_seconds": step_ms / 1000, "points": points}


def _describe_step(step: QueueStep) -> QueueTrendPoint:
    return {
        "at": format_time(from_epoch_ms(step.begin_ms)),
        "pending": step.pending,
        "oldest_wait_seconds": step.oldest_wait_seconds,
        "jobs_started": step.jobs_started,
    }


def describe_worker(worker: QueueWorker, clock_ms: int) -> WorkerDocument:
    """`clock_ms`: the time up to which reports are known (`read_queue_clock`)."""
    is_lost = worker.status != "stopped" and worker.received_ms <= clock_ms - LOST_MS
    return {
        "worker_id": worker.worker_id,
        "status": cast(Any, "lost" if is_lost else worker.status),
        "job_id": worker.job_id,
        "sequence": worker.sequence,
        "last_report_at": format_time(from_epoch_ms(worker.received_ms)),
    }


def describe_removed(found: FoundMonitor, keys: int) -> RemovedMonitor:
    return {"id": found.monitor.id, "name": found.monitor.name, "keys": keys}


def _format_ms(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else format_time(from_epoch_ms(milliseconds))
