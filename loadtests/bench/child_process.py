"""Runs child processes for the benchmarks. A child reports its results as lines of JSON."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

_END_SECONDS = 30.0


class ChildFailed(Exception):
    """A child process ended before it had reported its result."""


class Child:
    """A running child process. Made by `running_child` and `running_program`."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self._name = name
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    def check_running(self) -> None:
        """Raise `ChildFailed` if the process has ended."""
        if self._process.returncode is not None:
            raise ChildFailed(f"{self._name} ended with {self._process.returncode}; see its errors above.")

    async def read(self) -> dict[str, Any]:
        """Return the next line that the process reports. Raises `ChildFailed` if the process has ended."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise ChildFailed(f"{self._name} ended with {await self._process.wait()}; see its errors above.")
        message: dict[str, Any] = json.loads(line)
        return message


@asynccontextmanager
async def running_child(
    module: str, arguments: Mapping[str, object], package: str = "loadtests.bench"
) -> AsyncIterator[Child]:
    """Run `python -m PACKAGE.MODULE` within the context, with the arguments as JSON. Stop the process at the
    end."""
    command = [sys.executable, "-m", f"{package}.{module}", json.dumps(arguments)]
    async with running_program(module, command) as child:
        yield child


@asynccontextmanager
async def running_program(name: str, command: Sequence[str]) -> AsyncIterator[Child]:
    """Run a program within the context. Stop it at the end. `name`: its name in error messages."""
    process = await asyncio.create_subprocess_exec(
        *command,
        # Nothing is ever written to this pipe. When the benchmark ends, the pipe ends, and the child notices
        # it.
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        # Ctrl-C reaches only the benchmark, which then stops its child processes.
        start_new_session=True,
    )
    try:
        yield Child(name, process)
    finally:
        await stop_process(process)


async def stop_process(process: asyncio.subprocess.Process) -> None:
    """Send SIGTERM. If the process does not end in time, send SIGKILL."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _END_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()


def send_result(message: Mapping[str, object]) -> None:
    """Report a value from a child process to the benchmark."""
    print(json.dumps(message), flush=True)
