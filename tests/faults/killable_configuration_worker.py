"""A worker that kills itself with SIGKILL at a checkpoint of a step, such as `applied 7`, or that waits there to be
killed: `wait 7`.

The process imports everything once. For each line of its input, a checkpoint or nothing, it forks a life: a process
that ends when no run is running. It prints the ID of that process, and at its end the number of the signal, or 0.
"""

import argparse
import asyncio
import os
import signal
from datetime import timedelta

from control_domain.database.engine import open_engine, open_sessions
from control_workers.configuration_runs import (
    Checkpoint,
    ConfigurationRunWorker,
    running_configuration_worker,
)
from storage_backends.key_directory.redis import open_redis_key_directory
from tests.support.fifty_steps import until_ended
from tests.support.forked_lives import run_lives
from tests.support.serve_control import VARIABLE_KEYS


async def _live(arguments: argparse.Namespace, order: str) -> None:
    async def die_at(checkpoint: Checkpoint, position: int) -> None:
        if order == f"{checkpoint} {position}":
            os.kill(os.getpid(), signal.SIGKILL)
        if checkpoint == "started" and order == f"wait {position}":
            await asyncio.Event().wait()

    engine = open_engine(arguments.database)
    sessions = open_sessions(engine)
    # Same as in the control plane.
    directory = await open_redis_key_directory(arguments.redis, follow=False)
    worker = ConfigurationRunWorker(
        sessions,
        directory,
        VARIABLE_KEYS,
        lease=timedelta(seconds=arguments.lease_seconds),
        on_checkpoint=die_at,
    )
    async with running_configuration_worker(worker, is_alone=arguments.alone):
        # Wake the worker, because polling once a second would slow the test down.
        await until_ended(sessions, look=worker.wake)
    await directory.close()
    await engine.dispose()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--database", required=True)
    parser.add_argument("--redis", required=True)
    parser.add_argument("--lease-seconds", type=float, required=True)
    parser.add_argument("--alone", action="store_true", help="there is no other worker")
    arguments = parser.parse_args()
    run_lives(lambda order: _live(arguments, order))


if __name__ == "__main__":
    main()
