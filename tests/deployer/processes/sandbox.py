"""A folder, a home, an owner and a mark for the processes of one test."""

import asyncio
import os
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from deployer.processes.confinement import Confinement, Limits, Owner
from deployer.processes.run_step import Stream, run_step
from deployer.processes.start_process import start_process

# Hypothesis seeds the default generator: two test processes would draw the same user, and end each other's steps.
_RANDOM = random.SystemRandom()
# Outside of the range of deployers: deployers of other tests end all processes of their users.
_USERS = range(2_000_000_000, 2_100_000_000)

PYTHON = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
"""A Python that every user may run, if the machine has one."""

FORK_BOMB = f"""exec {PYTHON} -c '
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
'"""
"""All of its processes fork forever, and continue after refused forks."""


@dataclass
class Sandbox:
    """Folders of the owner, below `path`, which only the tests' user can enter (0700)."""

    path: Path
    confinement: Confinement
    mark: str
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.confinement.folder

    def with_limits(self, **limits: int) -> "Sandbox":
        return self.with_confinement(limits=Limits(**limits))

    def with_confinement(self, **members: Any) -> "Sandbox":
        return replace(self, confinement=replace(self.confinement, **members))

    async def run(self, command: str, timeout_seconds: float = 120) -> str:
        """Run a step and return its standard output, followed by its standard error. Raises StepFailed."""
        # The order of chunks from different streams is undefined.
        heard: dict[Stream, bytes] = {"stdout": b"", "stderr": b""}

        async def listen(stream: Stream, chunk: bytes) -> None:
            heard[stream] += chunk

        await run_step(
            command,
            variables=self.variables,
            confinement=self.confinement,
            mark=self.mark,
            timeout_seconds=timeout_seconds,
            on_output=listen,
        )
        return b"".join(heard.values()).decode()

    def start(self, command: str, output: int, dies_with_deployer: bool = True) -> Any:
        return start_process(
            command,
            variables=self.variables,
            confinement=self.confinement,
            mark=self.mark,
            stdout=output,
            stderr=output,
            dies_with_deployer=dies_with_deployer,
        )


def make_sandbox(path: Path) -> Sandbox:
    """Create a sandbox. As root it has a separate user, because a step ends all processes of its owner."""
    owner = None
    if os.geteuid() == 0:
        number = _RANDOM.choice(_USERS)
        owner = Owner(number, number)
    folders = [path / "app", path / "home"]
    for folder in folders:
        folder.mkdir(parents=True)
        if owner is not None:
            os.chown(folder, owner.uid, owner.gid)
    mark = f"test:{os.getpid()}:{_RANDOM.randrange(10**12)}:"
    return Sandbox(path, Confinement(*folders, owner, is_writable=True), mark)


async def wait_until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Poll the condition until it is true. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


def command_line(pid: int) -> bytes:
    """Return the arguments, each followed by a zero byte; empty while the process executes a new program."""
    return Path(f"/proc/{pid}/cmdline").read_bytes()
