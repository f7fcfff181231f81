"""A thread pool for searching and ending processes of applications.

It is separate from the shared pool: a process that the kernel holds blocks its thread for a minute, which must not
delay the start of another application.
"""

import asyncio
import errno
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_MAX_THREADS = 32

_threads = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="end-processes")


async def run_in_thread(run: Callable[[], T]) -> T:
    """Call the blocking `run` in a thread and return its result. Raises OSError (EAGAIN) without a free thread."""
    return await run_in_pool(_threads, run)


async def run_in_pool(threads: ThreadPoolExecutor, run: Callable[[], T]) -> T:
    """Do the same as `run_in_thread`, in the pool that the caller passes."""
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
