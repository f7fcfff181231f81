"""Ends connections whose peer has stopped reading its answers."""

import asyncio

from connection_bounds.backlogs import Backlog, Backlogs

_MOST_SECONDS_BETWEEN_SWEEPS = 5.0
_SWEEPS_PER_SILENCE = 8


class UnreadAnswers:
    """Aborts connections of one server whose peer takes no byte of an answer for `silent_seconds`.

    Without this, `transport.close()` waits for ever for a peer that does not read.
    """

    def __init__(self, silent_seconds: float) -> None:
        self._backlogs = Backlogs(silent_seconds)
        self._pause = min(silent_seconds / _SWEEPS_PER_SILENCE, _MOST_SECONDS_BETWEEN_SWEEPS)
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, transport: asyncio.Transport) -> Backlog:
        """Watch a connection that has unsent bytes until `end`."""
        loop = asyncio.get_running_loop()
        backlog = self._backlogs.begin(transport, transport.abort, loop.time())
        if self._timer is None:
            self._timer = loop.call_later(self._pause, self._sweep)
        return backlog

    def end(self, backlog: Backlog) -> None:
        """Stop watching: all bytes are sent, or the connection is lost."""
        self._backlogs.end(backlog)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self._backlogs.sweep(loop.time())
        # The timer runs only while a connection is watched, so that no server has to stop the timer.
        self._timer = loop.call_later(self._pause, self._sweep) if self._backlogs else None
