"""Decides which changes of heartbeats become alert events. Pure: the caller stores the event with the change."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pipeline_contracts.heartbeat_runs import Run
from pipeline_contracts.heartbeat_states import Heartbeat

_OUTPUT_CHARACTERS = 350
"""`pharos heartbeat show` shows the whole output."""

Reason = Literal["paused", "resumed", "removed"]
"""The reason for the end of an incident that did not end with a signal."""


@dataclass(frozen=True, slots=True)
class HeartbeatAlert:
    """An event of a heartbeat, whose subject is the heartbeat's ID."""

    kind: str
    state: Literal["firing", "resolved"]
    at_ms: int
    facts: Mapping[str, Any]


def take_alert(heartbeat: Heartbeat, runs: Collection[Run] = ()) -> HeartbeatAlert | None:
    """Return the event for the difference between the state and the state of the last alert event, and store the new
    state as alerted.

    Only the net change of a transaction counts, however often the state changed within it. `unknown` causes no event,
    because it says nothing about the job. `runs` are the changed runs.
    """
    alerted, state = heartbeat.alerted, heartbeat.state
    if state == "unknown":
        return None
    current = state if state == "late" or state == "down" else None
    if current == alerted:
        return None
    heartbeat.alerted = current
    if current is not None:
        facts = _facts(heartbeat) | _cause(heartbeat, runs)
        return HeartbeatAlert(f"heartbeat.{current}", "firing", heartbeat.since_ms, facts)
    facts = _facts(heartbeat)
    if state == "paused":
        facts["reason"] = "paused"
    elif state == "new":
        facts["reason"] = "resumed"
    return HeartbeatAlert(f"heartbeat.{alerted}", "resolved", heartbeat.since_ms, facts)


def take_removal_alert(heartbeat: Heartbeat, now_ms: int) -> HeartbeatAlert | None:
    """Return the resolution of the incident of a heartbeat that is removed; None if no incident is open."""
    if heartbeat.alerted is None:
        return None
    facts = {**_facts(heartbeat), "reason": "removed"}
    return HeartbeatAlert(f"heartbeat.{heartbeat.alerted}", "resolved", now_ms, facts)


def _facts(heartbeat: Heartbeat) -> dict[str, Any]:
    schedule = heartbeat.schedule
    return {
        "heartbeat": heartbeat.name,
        "state": heartbeat.state,
        "since_ms": heartbeat.since_ms,
        "due_ms": heartbeat.due_ms,
        "last_signal_ms": heartbeat.last_signal_ms,
        "last_success_ms": heartbeat.last_success_ms,
        "failures_in_row": heartbeat.failures_in_row,
        "failures_before_down": heartbeat.failures_before_down,
        "period_seconds": schedule.period_seconds,
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "grace_ms": heartbeat.grace_ms,
        "max_runtime_ms": heartbeat.max_runtime_ms,
    }


def _cause(heartbeat: Heartbeat, runs: Collection[Run]) -> dict[str, Any]:
    """Return why the heartbeat is down: a missed run with its due time, or a run that failed or took too long."""
    if heartbeat.state != "down":
        return {}
    if heartbeat.missed_ms and heartbeat.missed_ms[-1] == heartbeat.since_ms:
        return {"cause": "missed", "due_ms": heartbeat.since_ms - heartbeat.grace_ms}
    ended = [
        (run.ended_ms, run)
        for run in runs
        if run.ended_ms is not None and run.outcome in ("failed", "timed out")
    ]
    if not ended:
        return {}
    _, last = max(ended, key=lambda end: end[0])
    cause = {"cause": last.outcome, "exit_status": last.exit_status}
    return {**cause, "output": _cut_output(last.output)} if last.output else cause


def _cut_output(output: str) -> str:
    """Return the end of the output of a run: errors are in its last lines."""
    text = output.strip()
    return text if len(text) <= _OUTPUT_CHARACTERS else "…" + text[-_OUTPUT_CHARACTERS:]
