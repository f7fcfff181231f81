"""The masks of deployments, which hide the values of variables in what their processes print."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence

from deployer.log_lines.masking import Mask

_MAX_MASKS = 64

ReadValues = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the values that the processes of a deployment have, by the environment's public ID and the deployment."""


class DeploymentMasks:
    """Keeps the masks of the deployments that were used last: a mask may take half a second to make."""

    def __init__(self, read_values: ReadValues) -> None:
        self._read_values = read_values
        self._masks: OrderedDict[tuple[str, int], Mask] = OrderedDict()

    async def find(self, environment_id: str, deployment_id: int) -> Mask:
        """Return the mask. Raises the errors of `read_values`."""
        key = (environment_id, deployment_id)
        mask = self._masks.get(key)
        if mask is None:
            mask = await asyncio.to_thread(Mask, await self._read_values(environment_id, deployment_id))
            self._masks[key] = mask
        self._masks.move_to_end(key)
        while len(self._masks) > _MAX_MASKS:
            self._masks.popitem(last=False)
        return mask
