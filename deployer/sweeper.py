"""Decides when the driver removes what is no longer needed (a sweep), and runs sweeps while the deployer keeps
polling."""

import asyncio
import logging
from functools import partial

from sqlalchemy.exc import SQLAlchemyError

from deployer.database_guard import DatabaseGuard
from deployer.database_memory import DatabaseRefused
from deployer.deployments.run_deployment import DeployContext
from deployer.environments.desired_states import read_retained

logger = logging.getLogger(__name__)

_SWEEP_SECONDS = 60.0
_SWEEP_AGAIN_SECONDS = 2.0


class Sweeper:
    """Starts a sweep once a minute, and on request. If a sweep left something because it was in use, the next sweep
    follows soon."""

    def __init__(self, context: DeployContext, holder: str, guard: DatabaseGuard) -> None:
        self._context = context
        self._holder = holder
        self._guard = guard
        self.is_requested = False
        """True if the next poll starts a sweep."""
        self.task: asyncio.Task[None] | None = None
        """The task of the newest sweep."""
        self._swept_at = float("-inf")

    @property
    def is_sweeping(self) -> bool:
        return self.task is not None and not self.task.done()

    def start_if_due(self, loop_time: float) -> None:
        """Start a sweep if one is due and none runs. Nothing waits for it, because processes may take long to end."""
        if (loop_time - self._swept_at >= _SWEEP_SECONDS or self.is_requested) and not self.is_sweeping:
            self._swept_at, self.is_requested = loop_time, False
            self.task = asyncio.create_task(self._sweep(), name="sweep")

    async def _sweep(self) -> None:
        try:
            read = partial(read_retained, self._context.sessions, self._holder, self._guard.check_in)
            if await self._context.driver.sweep(read):
                again_at = asyncio.get_running_loop().time() + _SWEEP_AGAIN_SECONDS
                self._swept_at = again_at - _SWEEP_SECONDS
        except (SQLAlchemyError, DatabaseRefused) as error:
            logger.warning("the sweep is skipped: %s", error)
        except Exception:
            self._context.metrics.failures += 1
            logger.exception("the sweep failed")
