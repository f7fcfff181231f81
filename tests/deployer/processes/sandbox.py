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

# Hypothesis seeds the usual generator: two processes of one run would draw the same user, and end the other's steps.
_DICE = random.SystemRandom()
# None that a deployer may have: deployers of other tests end what runs as their users.
_USERS = range(2_000_000_000, 2_100_000_000)

PYTHON = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
"""One that every user may run, where there is such."""

FORK_BOMB = f"""exec {PYTHON} -c '
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
'"""
"""Each of its processes forks for ever, also when it may not for the moment."""


@dataclass
class Sandbox:
    """Everything in it is the owner's; `path` itself is as pytest makes it, 0700 of our own user."""

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
        """What the step printed: its standard output, then its standard error. Raises StepFailed."""
        # Which of two streams is heard first is nobody's promise.
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
    """A user of its own for each where we are root: a step ends whatever runs as its owner."""
    owner = None
    if os.geteuid() == 0:
        number = _DICE.choice(_USERS)
        owner = Owner(number, number)
    folders = [path / "app", path / "home"]
    for folder in folders:
        folder.mkdir(parents=True)
        if owner is not None:
            os.chown(folder, owner.uid, owner.gid)
    mark = f"test:{os.getpid()}:{_DICE.randrange(10**12)}:"
    return Sandbox(path, Confinement(*folders, owner, is_writable=True), mark)


async def wait_until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


def command_line(pid: int) -> bytes:
    """Each argument with a zero behind it; empty for the moment in which the process becomes another program."""
    return Path(f"/proc/{pid}/cmdline").read_bytes()
