"""Keeps the masks of deployments. A mask hides the values of variables in the output of a deployment's
processes."""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

from deployer.log_lines.masking import Mask

# A mask of 20 variables takes 20 KiB, the largest one 24 MiB. Enough for 3,000 usual deployments: with fewer than run,
# each pass over all outputs would make every mask again.
_MAX_BYTES = 64 * 2**20
_IDLE_SECONDS = 600.0

_Key = tuple[str, int]
ReadValues = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the values of the variables of a deployment, by the environment's public ID and the deployment's ID."""
CountCpuSeconds = Callable[[int, float], None]
"""Takes CPU time from the budget of an account."""


@dataclass(slots=True)
class _Kept:
    mask: Mask
    account_id: int
    used_at: float


class DeploymentMasks:
    """Keeps the most recently used masks: one takes up to two seconds to make.

    If memory is short, masks that were not used for ten minutes are removed first, then those of the account whose
    masks take most. So an account with many variables cannot push out the masks of others.
    """

    def __init__(
        self, read_values: ReadValues, count_cpu_seconds: CountCpuSeconds, clock: Callable[[], float]
    ) -> None:
        """`clock` returns seconds and is never set back."""
        self._read_values = read_values
        self._count_cpu_seconds = count_cpu_seconds
        self._clock = clock
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        """The one that was not used for the longest time comes first."""
        self._bytes: Counter[int] = Counter()
        """Of the masks of each account."""
        self._locks: WeakValueDictionary[_Key, asyncio.Lock] = WeakValueDictionary()
        """Each exists as long as somebody holds it or waits for it."""
        self._making = asyncio.Lock()

    async def find(self, account_id: int, environment_id: str, deployment_id: int) -> Mask:
        """Return the mask of a deployment of this account. Raises the errors of `read_values`."""
        key = (environment_id, deployment_id)
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        # Several processes of a deployment need the mask at once.
        async with lock:
            kept = self._kept.get(key)
            if kept is not None:
                kept.used_at = self._clock()
                self._kept.move_to_end(key)
                return kept.mask
            values = await self._read_values(environment_id, deployment_id)
            # One at a time: making a mask takes several times its memory.
            async with self._making:
                mask, cpu_seconds = await asyncio.to_thread(_make, values)
            self._count_cpu_seconds(account_id, cpu_seconds)
            self._keep(key, _Kept(mask, account_id, self._clock()))
            return mask

    def _keep(self, key: _Key, made: _Kept) -> None:
        self._kept[key] = made
        self._bytes[made.account_id] += made.mask.memory_bytes
        while self._bytes.total() > _MAX_BYTES and len(self._kept) > 1:
            self._remove(self._choose_removed())

    def _choose_removed(self) -> _Key:
        oldest = next(iter(self._kept))
        if self._clock() - self._kept[oldest].used_at > _IDLE_SECONDS:
            return oldest
        [(largest, _)] = self._bytes.most_common(1)
        return next(key for key, kept in self._kept.items() if kept.account_id == largest)

    def _remove(self, key: _Key) -> None:
        removed = self._kept.pop(key)
        self._bytes[removed.account_id] -= removed.mask.memory_bytes
        if not self._bytes[removed.account_id]:
            del self._bytes[removed.account_id]


def _make(values: Sequence[str]) -> tuple[Mask, float]:
    """Return the mask, and the CPU seconds that it has taken."""
    begun = time.thread_time()
    return Mask(values), time.thread_time() - begun
