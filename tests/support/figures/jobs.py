"""The figures of pages of jobs: heartbeats and queues."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.support.figures.expected import Shown
from tests.support.figures.texts import (
    write_between,
    write_count,
    write_duration,
    write_fixed,
    write_local,
    write_plural,
    write_seconds,
    write_workers,
)

_STATES = {
    "up": "Up",
    "down": "Down",
    "late": "Late",
    "running": "Running",
    "new": "Waiting",
    "paused": "Paused",
}
_OUTCOMES = {"succeeded": "Succeeded", "failed": "Failed", "timed_out": "Timed out", "open": "Running"}
_TREND_MINUTES = 180


def _find_median(runs: Sequence[Mapping[str, Any]] | None) -> str:
    durations = sorted(run["duration_seconds"] for run in runs or () if run["duration_seconds"] is not None)
    return write_seconds(durations[(len(durations) - 1) // 2] if durations else None)


def _read_heartbeats(heartbeats: list[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in heartbeats:
        last = [] if each["last_signal_at"] is None else [each["last_signal_at"]]
        yield [each["name"], each["environment"]["name"], _STATES[each["state"]], *last]
        yield [each["name"], _find_median(each["recent_runs"])]


def _read_heartbeat(each: Mapping[str, Any]) -> Iterable[list[str]]:
    yield [each["name"]]
    failures = each["failures_in_row"]
    yield ["State", _STATES[each["state"]], *([write_plural(failures, "failure")] if failures else [])]
    yield [f"{write_seconds(each['grace_seconds'])} grace time"]
    yield ["Open runs", str(each["open_runs"]), f"at most {write_seconds(each['max_runtime_seconds'])} each"]


def _read_runs(runs: list[Mapping[str, Any]]) -> Iterable[list[str]]:
    for run in runs:
        status = "–" if run["exit_status"] is None else str(run["exit_status"])
        yield [
            run["first_signal_at"],
            _OUTCOMES[run["outcome"]],
            write_seconds(run["duration_seconds"]),
            status,
        ]
    timed = [run for run in runs if run["duration_seconds"] is not None]
    if len(timed) > 1:
        yield [f"Median {_find_median(runs)} of {len(timed)} runs"]
    for run in timed:
        # The chart's table for screen readers.
        is_bad = run["outcome"] in ("failed", "timed_out")
        took = write_seconds(run["duration_seconds"])
        yield [f"no data {took}" if is_bad else f"{took} no data"]


def _read_incidents(incidents: list[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in incidents:
        yield [each["title"], each["started_at"], *write_between(each["started_at"], each["resolved_at"])]


def _read_queues(queues: list[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in queues:
        yield [
            each["name"],
            write_count(each["pending"]),
            write_seconds(each["oldest_wait_seconds"]),
            _write_throughput(each["trend"]),
            write_workers(each["workers"]),
            write_count(each["failed"]),
        ]


def _write_throughput(trend: Sequence[Mapping[str, Any]] | None) -> str:
    jobs = sum(point["jobs_started"] for point in trend or ())
    rate = jobs / _TREND_MINUTES
    if jobs == 0:
        return "–"
    if rate >= 10:
        return f"{write_local(rate, 0)}/min"
    return f"{write_fixed(rate, 1)}/min" if rate >= 1 else f"{write_local(rate * 60, 1)}/h"


def _write_oldest(queue: Mapping[str, Any]) -> str:
    """Without a pending job, no job is the oldest."""
    return "–" if queue["pending"] == 0 else write_seconds(queue["oldest_wait_seconds"])


def _read_queue(queue: Mapping[str, Any]) -> Iterable[list[str]]:
    workers = queue["workers"]
    yield ["Pending", write_count(queue["pending"])]
    yield ["Oldest job", _write_oldest(queue)]
    yield ["Delayed", write_count(queue["delayed"]), f"{write_count(queue['reserved'])} reserved"]
    yield ["Failed", write_count(queue["failed"])]
    yield ["Workers", write_count(workers["busy"] + workers["idle"]), write_workers(workers)]


def _read_queue_history(history: Mapping[str, Any]) -> Iterable[list[str]]:
    for point in history["points"]:
        counts = (point["pending"], point["delayed"], point["reserved"], point["failed"])
        yield [" ".join("no data" if each is None else write_count(each) for each in counts)]
        if point["oldest_wait_seconds"] is not None:
            yield [write_duration(point["oldest_wait_seconds"] * 1000)]


def _read_workers(workers: list[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in workers:
        yield [each["worker_id"], each["status"].capitalize(), each["job_id"] or "–", each["last_report_at"]]


_HEARTBEAT: Shown = {r"monitors/heartbeats/\d+": _read_heartbeat}
_QUEUE: Shown = {r"monitors/queues/\d+": _read_queue}

JOBS: dict[str, Shown] = {
    "/jobs/heartbeats": {"monitors/heartbeats": _read_heartbeats},
    "/jobs/heartbeats/:heartbeat": {**_HEARTBEAT, r"monitors/heartbeats/\d+/runs": _read_runs},
    "/jobs/heartbeats/:heartbeat?tab=incidents": {"incidents": _read_incidents},
    "/jobs/queues": {"monitors/queues": _read_queues},
    "/jobs/queues/:queue": {**_QUEUE, r"monitors/queues/\d+/(series|history)": _read_queue_history},
    "/jobs/queues/:queue?tab=workers": {r"monitors/queues/\d+/workers": _read_workers},
}
