"""Assign pings without a run ID to runs. Pure: the state between pings is an argument.

A start pairs with the next result. Of several open runs the newest is ended first: a run whose job crashed then runs
into its time limit, and the runs after it are timed correctly. A ping that is repeated within a short time belongs to
the run of the first one: clients send a ping again when the response was lost.
"""

from typing import TypeGuard

from msgspec import Struct

from pipeline_contracts.monitors import Signal

# `curl -m 10 --retry 5` sends again after 11 to 26 s.
_REPEAT_MS = 60_000
# Bounds the open runs of a job that always crashes.
_MAX_OPEN = 10


class OpenRun(Struct, array_like=True, gc=False):
    """A run that a ping has started, without a result yet."""

    run_id: str
    started_ms: int


class EndedRun(Struct, array_like=True, gc=False):
    """The run of the newest result."""

    run_id: str
    signal: Signal
    ended_ms: int


class PingPairs(Struct, gc=False):
    """State of one heartbeat's pings without a run ID."""

    log: str = ""
    """Permanent name of the log partition that `next_offset` belongs to."""
    next_offset: int = 0
    """Offset after the last applied ping: a chunk that is read again pairs nothing twice."""
    open: list[OpenRun] = []
    """The newest last."""
    ended: EndedRun | None = None

    def run_ids(self) -> list[str]:
        """Return the runs that the next ping may belong to."""
        ids = [run.run_id for run in self.open]
        return ids if self.ended is None else [*ids, self.ended.run_id]


class UnpairedPing(Struct, gc=False):
    """A ping without a run ID, with its position in the log."""

    ping_id: str
    signal: Signal
    received_ms: int
    log: str
    offset: int


def repeat_window_ms(period_seconds: int | None) -> int:
    """Return the time within which a second ping of the same kind counts as a resend of the first.

    60 s, or half the period if that is shorter; 30 s for cron, whose shortest step is a minute.
    """
    return min(_REPEAT_MS, 500 * (period_seconds or 60))


def assign_run(pairs: PingPairs, ping: UnpairedPing, within_ms: int, max_runtime_ms: int) -> str | None:
    """Return the run that the ping belongs to, and update `pairs`; None if the ping was applied before.

    A new run has the ping's own ID. `within_ms` comes from `repeat_window_ms`.
    """
    if pairs.log == ping.log and ping.offset < pairs.next_offset:
        return None
    pairs.log, pairs.next_offset = ping.log, ping.offset + 1
    if ping.signal == "start":
        return _start(pairs, ping, within_ms)
    # A run that is open for twice its time limit has crashed: a result received now belongs to another run.
    pairs.open = [run for run in pairs.open if ping.received_ms - run.started_ms <= 2 * max_runtime_ms]
    run_id = ping.ping_id
    if pairs.open:
        run_id = pairs.open.pop().run_id
    elif _is_repeat(pairs.ended, ping, within_ms):
        return pairs.ended.run_id
    pairs.ended = EndedRun(run_id, ping.signal, ping.received_ms)
    return run_id


def _is_repeat(ended: EndedRun | None, ping: UnpairedPing, within_ms: int) -> TypeGuard[EndedRun]:
    if ended is None or ended.signal != ping.signal:
        return False
    return abs(ping.received_ms - ended.ended_ms) < within_ms


def _start(pairs: PingPairs, ping: UnpairedPing, within_ms: int) -> str:
    if pairs.open and abs(ping.received_ms - pairs.open[-1].started_ms) < within_ms:
        return pairs.open[-1].run_id
    pairs.open = [*pairs.open, OpenRun(ping.ping_id, ping.received_ms)][-_MAX_OPEN:]
    return ping.ping_id
