"""Keeps the masks of deployments. A mask hides the values of variables in the output of a deployment's
processes."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence

from deployer.log_lines.masking import Mask

# Memory for masks: a mask of 20 variables takes 30 KiB, the largest one 16 MiB. This suffices for 2,000 usual
# deployments. If more run, each pass over all outputs makes every mask again.
_MAX_BYTES = 64 * 2**20

ReadValues = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the values of the variables of a deployment, by the environment's public ID and the deployment's ID."""


class DeploymentMasks:
    """Keeps the most recently used masks, because making a mask takes up to half a second."""

    def __init__(self, read_values: ReadValues) -> None:
        self._read_values = read_values
        self._masks: OrderedDict[tuple[str, int], Mask] = OrderedDict()
        self._bytes = 0
        self._locks: dict[tuple[str, int], asyncio.Lock] = {}

    async def find(self, environment_id: str, deployment_id: int) -> Mask:
        """Return the mask of a deployment. Raises the errors of `read_values`."""
        key = (environment_id, deployment_id)
        lock = self._locks.setdefault(key, asyncio.Lock())
        try:
            # Several processes of a deployment may need the mask at the same time.
            async with lock:
                mask = self._masks.get(key)
                if mask is None:
                    values = await self._read_values(environment_id, deployment_id)
                    mask = await asyncio.to_thread(Mask, values)
                    self._keep(key, mask)
                self._masks.move_to_end(key)
                return mask
        finally:
            if not lock.locked():
                self._locks.pop(key, None)

    def _keep(self, key: tuple[str, int], mask: Mask) -> None:
        self._masks[key] = mask
        self._bytes += mask.memory_bytes
        while self._bytes > _MAX_BYTES and len(self._masks) > 1:
            self._bytes -= self._masks.popitem(last=False)[1].memory_bytes
