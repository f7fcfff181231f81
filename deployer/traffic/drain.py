"""Waits until instances that are to be stopped have answered what they had taken."""

import asyncio
from collections.abc import Sequence

from deployer.traffic.interface import Target, Traffic

_LOOK_SECONDS = 0.1


async def drain(traffic: Traffic, environment_id: int, targets: Sequence[Target], seconds: float) -> bool:
    """True as soon as none of `targets` has anything in work; False when that took longer than `seconds`.

    Then their WebSockets and event streams are ended.

    Before, a route must have been set that names them among `draining`, not among its targets.
    """
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + seconds
    waiting = list(targets)
    while True:
        # One that was at rest stays so: it gets no new request.
        waiting = [target for target in waiting if await traffic.in_work(environment_id, target)]
        left = ends_at - loop.time()
        if not waiting:
            return True
        if left <= 0:
            await asyncio.gather(*(traffic.end_streams(environment_id, target) for target in waiting))
            return False
        await asyncio.sleep(min(left, _LOOK_SECONDS))
