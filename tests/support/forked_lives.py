"""Runs a program many times from one process, which imports everything once.

For each line of its input, the process forks a life. It prints the ID of that life, and at its end the number of the
signal, or 0. `tests.support.killed_configuration_worker.RestartedWorker` is the client.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from sqlalchemy.orm import configure_mappers

from operator_cli.processes.process_logs import start_logs

logger = logging.getLogger(__name__)


def run_lives(live: Callable[[str], Coroutine[Any, Any, None]]) -> None:
    """Run a life for each line of the input, one after the other; `live` receives the line."""
    start_logs("info")
    # Import this once, instead of in each life.
    configure_mappers()
    for line in sys.stdin:
        number = _begin_life(live, line.strip())
        print(number, flush=True)
        _, status = os.waitpid(number, 0)
        print(-os.waitstatus_to_exitcode(status), flush=True)


def _begin_life(live: Callable[[str], Coroutine[Any, Any, None]], order: str) -> int:
    """Fork a life and return its process ID."""
    number = os.fork()
    if number:
        return number
    status = 1
    try:
        asyncio.run(live(order))
        status = 0
    except BaseException:
        logger.exception("it broke")
    finally:
        # Without flushing or closing what the parent process has open.
        os._exit(status)
