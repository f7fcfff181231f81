"""A worker of applications that kills itself with SIGKILL when it reaches a step of an operation, such as `begun 7`,
or that waits there for somebody to kill it: `wait 7`.

The process itself only waits with all that is needed imported. Each line of its input, a step or nothing, is one life:
a process that is forked off, so that it costs next to nothing, and that ends when no application is running any more.
It prints the life's process ID when that has begun, and how it ended: the number of the signal, or 0.
"""

import argparse
import asyncio
import logging
import os
import signal
import sys
from datetime import timedelta

from sqlalchemy.orm import configure_mappers

from control_domain.database.engine import open_engine, open_sessions
from control_workers.configuration_runs import (
    Checkpoint,
    ConfigurationRunWorker,
    running_configuration_worker,
)
from operator_cli.processes.process_logs import start_logs
from storage_backends.key_directory.redis import open_redis_key_directory
from tests.support.fifty_steps import until_ended
from tests.support.serve_control import VARIABLE_KEYS

logger = logging.getLogger(__name__)


async def _live(arguments: argparse.Namespace, order: str) -> None:
    async def die_at(checkpoint: Checkpoint, position: int) -> None:
        if order == f"{checkpoint} {position}":
            os.kill(os.getpid(), signal.SIGKILL)
        if checkpoint == "started" and order == f"wait {position}":
            await asyncio.Event().wait()

    engine = open_engine(arguments.database)
    sessions = open_sessions(engine)
    # As the control plane has it.
    directory = await open_redis_key_directory(arguments.redis, follow=False)
    worker = ConfigurationRunWorker(
        sessions,
        directory,
        VARIABLE_KEYS,
        lease=timedelta(seconds=arguments.lease_seconds),
        on_checkpoint=die_at,
    )
    async with running_configuration_worker(worker, is_alone=arguments.alone):
        # Woken: to look once a second is enough where nobody waits for it.
        await until_ended(sessions, look=worker.wake)
    await directory.close()
    await engine.dispose()


def _begin_life(arguments: argparse.Namespace, order: str) -> int:
    """The process ID."""
    number = os.fork()
    if number:
        return number
    status = 1
    try:
        asyncio.run(_live(arguments, order))
        status = 0
    except BaseException:
        logger.exception("it broke")
    finally:
        # Nothing that the waiting process has open is closed, or written, once more.
        os._exit(status)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--database", required=True)
    parser.add_argument("--redis", required=True)
    parser.add_argument("--lease-seconds", type=float, required=True)
    parser.add_argument("--alone", action="store_true", help="there is no other worker")
    arguments = parser.parse_args()
    start_logs("info")
    # What each life would begin with.
    configure_mappers()
    for line in sys.stdin:
        number = _begin_life(arguments, line.strip())
        print(number, flush=True)
        _, status = os.waitpid(number, 0)
        print(-os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
