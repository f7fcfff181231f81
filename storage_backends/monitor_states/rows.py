"""Converts between database rows and heartbeats, runs, snapshots and workers, for both adapters.

Rows are read by position: the columns in `postgres.sql` and `sqlite.sql` have the order that is expected here.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from pipeline_contracts.blind_times import BlindTime, Gap
from pipeline_contracts.heartbeat_alerts import take_alert
from pipeline_contracts.heartbeat_names import (
    CREATED_GRACE_SECONDS,
    CREATED_MAX_RUNTIME_SECONDS,
    CREATED_PERIOD_SECONDS,
    MAX_CREATED_MEANWHILE,
)
from pipeline_contracts.heartbeat_runs import Run
from pipeline_contracts.heartbeat_states import Heartbeat, State
from pipeline_contracts.ping_pairs import PingPairs
from pipeline_contracts.schedules import Schedule
from storage_backends.monitor_states.interface import (
    MAX_LOG_ENTRIES,
    MAX_WORKERS,
    LogEntry,
    NamedHeartbeat,
    SeenQueue,
    SeenWorker,
    Watched,
)

CREATED_COLUMNS = (
    CREATED_PERIOD_SECONDS,
    CREATED_GRACE_SECONDS,
    CREATED_MAX_RUNTIME_SECONDS,
    MAX_CREATED_MEANWHILE,
)
"""The values for the last parameters of the statement `create_heartbeat`."""

_encode = msgspec.json.encode
_decode_missed = msgspec.json.Decoder(list[int]).decode
_decode_pings = msgspec.json.Decoder(PingPairs).decode


def by_id(rows: Iterable[Sequence[Any]]) -> dict[int, Watched]:
    """Return the heartbeats, by ID, in rows of the statement `read_heartbeats` or `read_due_heartbeats`."""
    return {(heartbeat := _to_heartbeat(row)).heartbeat_id: Watched(heartbeat) for row in rows}


def heartbeats_of(
    requested: Iterable[NamedHeartbeat], applied: Mapping[str, int | None]
) -> dict[tuple[str, str], int | None]:
    """Return the heartbeats whose pings were applied before, by environment and name. None for a heartbeat that was
    removed."""
    return {
        (each.environment_id, each.name): applied[each.ping_id]
        for each in requested
        if each.ping_id in applied
    }


def without_missing(found: Mapping[tuple[str, str], int | None]) -> dict[tuple[str, str], int]:
    """Return `found` without the heartbeats that were removed."""
    return {name: number for name, number in found.items() if number is not None}


def add_runs(watched: Mapping[int, Watched], rows: Iterable[Sequence[Any]]) -> None:
    """Add the runs in rows of the statement `read_runs` or `read_open_runs` to their heartbeats."""
    for row in rows:
        run = _to_run(row)
        watched[row[0]].runs[run.run_id] = run


def all_runs(watched: Watched, rows: Iterable[Sequence[Any]]) -> list[Run]:
    """Return the runs in rows of the statement `read_run_times`. Runs that were changed in memory replace the stored
    ones."""
    runs = {run.run_id: run for run in (*map(_to_run, rows), *watched.changed)}
    return list(runs.values())


def _to_heartbeat(row: Sequence[Any]) -> Heartbeat:
    heartbeat = Heartbeat(
        row[0],
        row[1],
        Schedule(row[2], row[3], row[4]),
        1000 * row[5],
        1000 * row[6],
        row[7],
        bool(row[8]),
        cast(State, row[9]),
        *row[10:20],
    )
    heartbeat.judged_from_ms = row[20]
    if row[21]:
        heartbeat.missed_ms = _decode_missed(row[21])
    if row[22]:
        heartbeat.pings = _decode_pings(row[22])
    heartbeat.name, heartbeat.alerted = row[23], row[24]
    if row[25] is not None:
        heartbeat.blind = BlindTime(*row[25:28])
    return heartbeat


def _to_run(row: Sequence[Any]) -> Run:
    return Run(*row[1:])


def runs_of(rows: Iterable[Sequence[Any]]) -> dict[int, list[Run]]:
    """Return the runs in rows of the statement `read_prunable_runs`, by heartbeat ID."""
    runs: dict[int, list[Run]] = {}
    for row in rows:
        runs.setdefault(row[0], []).append(_to_run(row))
    return runs


def requested_runs(
    requested: Mapping[int, Collection[str]], watched: Mapping[int, Watched]
) -> list[tuple[int, str]]:
    """Return pairs of heartbeat ID and run ID: the requested runs, and the runs to which pings without a run ID may
    belong."""
    keys: set[tuple[int, str]] = set()
    for number, found in watched.items():
        pings = found.heartbeat.pings
        keys.update((number, run) for run in requested[number])
        keys.update((number, run) for run in (() if pings is None else pings.run_ids()))
    return sorted(keys)


def state_values(heartbeat: Heartbeat) -> tuple[Any, ...]:
    """Return the values of a heartbeat to write, in the order of the statement's parameters: from state to
    oldest_start_ms, then missed_ms, pings, alerted, ID, version."""
    return (
        heartbeat.state,
        heartbeat.since_ms,
        heartbeat.due_ms,
        heartbeat.deadline_ms,
        heartbeat.last_signal_ms,
        heartbeat.last_success_ms,
        heartbeat.last_end_ms,
        heartbeat.failures_in_row,
        heartbeat.open_runs,
        heartbeat.oldest_start_ms,
        _encode(heartbeat.missed_ms).decode() if heartbeat.missed_ms else None,
        None if heartbeat.pings is None else _encode(heartbeat.pings).decode(),
        heartbeat.alerted,
        heartbeat.heartbeat_id,
        heartbeat.version,
    )


def take_alerts(changed: Iterable[Watched]) -> list[tuple[Any, ...]]:
    """Return the values of the alert events of these heartbeats. Each row ends with the heartbeat's ID. Call this
    before `state_values`, because a state also stores which event was sent."""
    values = []
    for item in changed:
        number = item.heartbeat.heartbeat_id
        if (alert := take_alert(item.heartbeat, item.changed)) is not None:
            facts = _encode(alert.facts).decode()
            values.append((alert.kind, str(number), alert.state, alert.at_ms, facts, number))
    return values


def blind_facts(gap: Gap, heartbeats: int) -> str:
    """Return the facts of the alert event about a gap, as JSON."""
    facts = {"from_ms": gap.from_ms, "to_ms": gap.to_ms, "what": "heartbeats", "heartbeats": heartbeats}
    return _encode(facts).decode()


def run_values(heartbeat_id: int, run: Run) -> tuple[Any, ...]:
    """Return the values of a run in the order of the columns of `write_runs`."""
    return (
        heartbeat_id,
        run.run_id,
        run.first_ms,
        run.started_ms,
        run.succeeded_ms,
        run.failed_ms,
        run.timed_out_ms,
        run.exit_status,
        run.output,
    )


def log_entry_values(entry: LogEntry) -> tuple[Any, ...]:
    """Return the values of a log entry to write, then the environment to which its heartbeat must belong."""
    return (
        entry.heartbeat_id,
        entry.entry_id,
        entry.run_id,
        entry.received_ms,
        entry.text,
        entry.environment_id,
    )


def logs_to_trim(entries: Iterable[LogEntry]) -> list[tuple[int, int]]:
    """Return for each heartbeat of these entries its ID, and how many of its entries stay stored."""
    return [(number, MAX_LOG_ENTRIES) for number in sorted({entry.heartbeat_id for entry in entries})]


def snapshot_values(seen: SeenQueue) -> tuple[Any, ...]:
    """Return the values of a queue's snapshot to write, then the environment to which the queue must belong."""
    return (
        seen.queue_id,
        seen.snapshot_id,
        seen.observed_us,
        seen.received_ms,
        seen.pending,
        seen.delayed,
        seen.reserved,
        seen.failed,
        seen.oldest_wait_seconds,
        seen.environment_id,
    )


def worker_values(seen: SeenWorker) -> tuple[Any, ...]:
    """Return the values of a worker's update to write, then the environment to which the queue must belong."""
    return (
        seen.queue_id,
        seen.worker_id,
        seen.sequence,
        seen.status,
        seen.job_id,
        seen.received_ms,
        seen.environment_id,
    )


def workers_to_keep(workers: Iterable[SeenWorker]) -> list[tuple[int, int]]:
    """Return for each queue of these workers its ID, and how many of its workers stay stored."""
    return [(queue, MAX_WORKERS) for queue in sorted({seen.queue_id for seen in workers})]


def columns_of(rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    """Return the rows as a list of columns."""
    return [list(column) for column in zip(*rows, strict=True)]
