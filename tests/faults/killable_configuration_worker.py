"""A worker of configuration runs that kills itself with SIGKILL at a step of an operation, such as `begun 7`, or waits
there to be killed: `wait 7`.

This process imports everything and waits. Each line of its input (a step, or empty) forks one cheap child process,
which ends when no run is in progress. The process prints the child's process ID at its start, and at its end the number
of the signal that killed it, or 0.
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
from tests.support.fifty_operations import until_ended
from tests.support.serve_control import VARIABLE_KEYS

logger = logging.getLogger(__name__)


async def _run_worker(arguments: argparse.Namespace, order: str) -> None:
    async def die_at(step: Checkpoint, position: int) -> None:
        if order == f"{step} {position}":
            os.kill(os.getpid(), signal.SIGKILL)
        if step == "started" and order == f"wait {position}":
            await asyncio.Event().wait()

    engine = open_engine(arguments.database)
    sessions = open_sessions(engine)
    # As in the control plane.
    directory = await open_redis_key_directory(arguments.redis, follow=False)
    worker = ConfigurationRunWorker(
        sessions,
        directory,
        VARIABLE_KEYS,
        lease=timedelta(seconds=arguments.lease_seconds),
        on_checkpoint=die_at,
    )
    async with running_configuration_worker(worker, is_alone=arguments.alone):
        # The worker is woken for new runs: polling once a second is enough.
        await until_ended(sessions, look=worker.wake)
    await directory.close()
    await engine.dispose()


def _fork_worker(arguments: argparse.Namespace, order: str) -> int:
    """Return the process ID."""
    number = os.fork()
    if number:
        return number
    status = 1
    try:
        asyncio.run(_run_worker(arguments, order))
        status = 0
    except BaseException:
        logger.exception("it broke")
    finally:
        # The child must not close or flush a second time what the parent has open.
        os._exit(status)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--database", required=True)
    parser.add_argument("--redis", required=True)
    parser.add_argument("--lease-seconds", type=float, required=True)
    parser.add_argument("--alone", action="store_true", help="there is no other worker")
    arguments = parser.parse_args()
    start_logs("info")
    # Before the fork, so that no child has to do it.
    configure_mappers()
    for line in sys.stdin:
        number = _fork_worker(arguments, line.strip())
        print(number, flush=True)
        _, status = os.waitpid(number, 0)
        print(-os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
