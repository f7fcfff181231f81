"""`pharos up` that kills itself with SIGKILL when its consumer reaches the step in `DIR/kill-at`."""

import argparse
import asyncio
import os
import signal
from pathlib import Path

from consumers.chunk import OnStep
from operator_cli.process_logs import start_logs
from operator_cli.process_settings import load_settings
from wiring.embedded.platform import run_platform


def _die_at(order: Path) -> OnStep:
    async def on_step(step: str) -> None:
        if order.exists() and order.read_text() == step:
            os.kill(os.getpid(), signal.SIGKILL)

    return on_step


async def _serve(data: Path, port: int) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with run_platform(data, "127.0.0.1", port, load_settings(), on_step=_die_at(data / "kill-at")):
        await stop.wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    start_logs("info")
    asyncio.run(_serve(arguments.data, arguments.port))


if __name__ == "__main__":
    main()
