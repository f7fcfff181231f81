"""Threads for what looks for processes of applications and ends them.

Apart from those that all else shares: what the kernel holds keeps its thread for a minute, and must not keep an
application of somebody else from its start.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_MOST = 32

_threads = ThreadPoolExecutor(_MOST, thread_name_prefix="end-processes")


async def in_thread(run: Callable[[], T]) -> T:
    """Return what `run` returns, which may block."""
    return await asyncio.get_running_loop().run_in_executor(_threads, run)
