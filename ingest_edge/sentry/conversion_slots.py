"""Share the slots for costly conversions among accounts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from pipeline_contracts.errors import Unavailable

SLOTS = 2
"""Maximum of concurrent conversions in one edge: objects take several times the memory of a body."""
WAIT_SECONDS = 5.0


class ConversionSlots:
    """A few slots for all accounts, and one at a time for each account.

    A request waits for the other conversions of its account first, so an account has at most one place in the queue for
    the slots.
    """

    def __init__(self, slots: int = SLOTS, wait_seconds: float = WAIT_SECONDS) -> None:
        self._slots = asyncio.Semaphore(slots)
        self._wait_seconds = wait_seconds
        self._turns: dict[str, _Turn] = {}

    @asynccontextmanager
    async def hold(self, account_id: str) -> AsyncIterator[None]:
        """Hold a slot. Raises `Unavailable` if none is free in time."""
        turn = self._turns.setdefault(account_id, _Turn())
        turn.users += 1
        try:
            async with AsyncExitStack() as held:
                try:
                    async with asyncio.timeout(self._wait_seconds):
                        await held.enter_async_context(turn.lock)
                        await held.enter_async_context(self._slots)
                except TimeoutError:
                    raise Unavailable(
                        "The edge is converting other large envelopes. Send the same request again.",
                        retry_after=round(self._wait_seconds) or 1,
                    ) from None
                yield
        finally:
            turn.users -= 1
            if not turn.users:
                del self._turns[account_id]


class _Turn:
    """The lock of one account, and the number of requests that hold it or wait for it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0
