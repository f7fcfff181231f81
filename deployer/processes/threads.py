"""Threads for what looks for processes of applications and ends them.

Apart from those that all else shares: what the kernel holds keeps its thread for a minute, and must not keep an
application of somebody else from its start.
"""

import asyncio
import errno
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_MOST = 32

_threads = ThreadPoolExecutor(_MOST, thread_name_prefix="end-processes")


async def in_thread(run: Callable[[], T]) -> T:
    """Call the blocking `run` in a thread and return its result. Raises OSError (EAGAIN) without a free thread."""
    return await run_in(_threads, run)


async def run_in(threads: ThreadPoolExecutor, run: Callable[[], T]) -> T:
    """As `in_thread`, in the pool that the caller passes."""
    result: Future[T] = Future()

    def call() -> None:
        if result.set_running_or_notify_cancel():
            try:
                result.set_result(run())
            except BaseException as error:
                result.set_exception(error)

    try:
        threads.submit(call)
    except RuntimeError as error:
        # The pool queues a call for which it cannot start a thread, and runs the call with a later one: too late for a
        # call that kills all processes with a mark. If another thread already runs the call, wait for its result.
        if result.cancel():
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from error
    return await asyncio.wrap_future(result)
