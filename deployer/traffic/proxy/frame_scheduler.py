"""Shares the event loop fairly among the WebSockets of all environments.

A read of 24 KiB may bring 12,000 frames of two bytes, which take a hundred times longer to parse than to read. In
addition, uvloop reads up to 32 times from a connection before it polls the next one.
"""

import asyncio
from collections import OrderedDict, deque
from typing import Protocol

# How many reads of one environment are parsed between two polls of the connections.
MAX_READS_PER_POLL = 16
# How many frames of each read are parsed at once: parsing this many costs less than the read itself.
MAX_FRAMES_PER_READ = 64
_FRAMES_PER_TURN = 256
# How many frames of all environments are parsed between two polls of the connections: this takes about 0.3 ms.
_MAX_FRAMES_PER_POLL = 2048
# What a turn costs in addition to its frames, counted in frames. Most of it is a write.
_TURN_COST = 64


class WaitingPipe(Protocol):
    """One direction of a WebSocket, with bytes that wait to be forwarded."""

    @property
    def is_ready(self) -> bool: ...
    def forward_waiting(self, limit: int) -> int: ...


class FrameScheduler:
    """Schedules environments round-robin, and the WebSockets of an environment round-robin."""

    def __init__(self) -> None:
        self._queues: OrderedDict[int, deque[WaitingPipe]] = OrderedDict()
        self._reads: dict[int, int] = {}
        self._is_scheduled = False

    def admit_read(self, environment_id: int) -> int:
        """Return how many frames of the current read may be parsed at once. 0 if the whole read has to wait."""
        reads = self._reads.get(environment_id, 0)
        if reads >= MAX_READS_PER_POLL:
            return 0
        self._reads[environment_id] = reads + 1
        # Do not schedule a run for each read: with little traffic, each run would cost an additional poll.
        if reads == MAX_READS_PER_POLL // 2:
            self._schedule()
        return MAX_FRAMES_PER_READ

    def enter(self, environment_id: int, waiting: WaitingPipe) -> None:
        """Call `waiting.forward_waiting` soon, and again as long as `waiting.is_ready`."""
        self._queues.setdefault(environment_id, deque()).append(waiting)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        self._reads.clear()
        left = _MAX_FRAMES_PER_POLL
        while self._queues and left > 0:
            environment_id, queue = self._queues.popitem(last=False)
            waiting = queue.popleft()
            left -= _TURN_COST + waiting.forward_waiting(_FRAMES_PER_TURN)
            if waiting.is_ready:
                queue.append(waiting)
            if queue:
                self._queues[environment_id] = queue
        if self._queues:
            self._schedule()
