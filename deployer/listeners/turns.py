"""Shares examinations among environments: one at a time of each, with pauses."""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

_PAUSE_FACTOR = 4.0
_PAUSE_MAX_SECONDS = 5.0
_KEPT = 1000


@dataclass(slots=True)
class Turn:
    """An environment's use of the threads."""

    cost_seconds: float = 0.0
    """What the examination cost. Set by whoever has the turn."""
    free_at: float = 0.0
    """By the loop's clock."""
    users: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Turns:
    """Gives one turn at a time to each environment. For one event loop."""

    def __init__(self) -> None:
        self._turns: dict[Hashable, Turn] = {}

    @asynccontextmanager
    async def take(self, environment: Hashable) -> AsyncIterator[Turn]:
        """Wait until no other turn of the environment is taken and its pause is over.

        The pause is four times what the last turn cost: an environment uses a fifth of one thread at most.
        """
        clock = asyncio.get_running_loop().time
        if len(self._turns) > _KEPT:
            self._turns = {key: one for key, one in self._turns.items() if one.users or one.free_at > clock()}
        turn = self._turns.setdefault(environment, Turn())
        turn.users += 1
        try:
            async with turn.lock:
                await asyncio.sleep(max(0.0, turn.free_at - clock()))
                turn.cost_seconds = 0.0
                try:
                    yield turn
                finally:
                    turn.free_at = clock() + min(_PAUSE_FACTOR * turn.cost_seconds, _PAUSE_MAX_SECONDS)
        finally:
            turn.users -= 1
