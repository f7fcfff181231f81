"""Runs one command of a build or of a release, until it ends."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from typing import Literal

from deployer.processes.confinement import Confinement, Owner
from deployer.processes.exits import count_oom_kills, describe_unexpected_exit
from deployer.processes.marks import end_instance
from deployer.processes.output_pipe import OutputPipe
from deployer.processes.running_process import RunningProcess
from deployer.processes.start_process import start_process
from deployer.shield import shield
from storage_backends.end_task import end_task

_LAST_OUTPUT_SECONDS = 1.0

Stream = Literal["stdout", "stderr"]
OnOutput = Callable[[Stream, bytes], Awaitable[None]]


class StepFailed(Exception):
    """The command failed. The message is a predicate ("ended with status 3") and does not contain the command."""


class StepTimedOut(StepFailed):
    """The command exceeded its time limit."""


async def run_step(
    command: str,
    *,
    variables: Mapping[str, str],
    confinement: Confinement,
    mark: str,
    timeout_seconds: float,
    on_output: OnOutput,
    is_owner_alone: bool = True,
) -> None:
    """Run the command with `start_process` and pass its output to `on_output`, in chunks of up to 64 KiB.

    The next chunk is read after `on_output` has returned: a slow receiver slows down the command, and no output piles
    up. The step ends with its shell. Processes that still run a second later are killed, by the mark and, with
    `is_owner_alone`, by the owner of the confinement. In this case, the owner must have no other processes. No process
    is left if this function raises StepFailed or an error of `on_output`, or is cancelled. Raises ValueError as
    `start_process` does, and StillRunning.
    """
    oom_kills = count_oom_kills()
    with ExitStack() as pipes:
        out, err = (pipes.enter_context(OutputPipe(confinement.owner)) for _ in range(2))
        try:
            process = start_process(
                command,
                variables=variables,
                confinement=confinement,
                mark=mark,
                stdout=out.writer,
                stderr=err.writer,
                dies_with_deployer=True,
            )
        except OSError as fault:
            raise StepFailed(f"could not be started: {fault.strerror}") from fault
        alone = confinement.owner if is_owner_alone else None
        step = _Step(process, alone, {"stdout": out, "stderr": err}, on_output)
        limit = asyncio.timeout(timeout_seconds)
        try:
            async with limit:
                status = await step.wait_for_end()
        except TimeoutError:
            if not limit.expired():
                raise
            raise StepTimedOut(f"took longer than {timeout_seconds:g} s and was ended") from None
        finally:
            await shield(step.close())
    if process.fault is not None:
        raise StepFailed(process.fault)
    if status != 0:
        raise StepFailed(describe_unexpected_exit(status, count_oom_kills() - oom_kills))


class _Step:
    """A running command, and the tasks that forward its output."""

    def __init__(
        self,
        process: RunningProcess,
        owner: Owner | None,
        pipes: Mapping[Stream, OutputPipe],
        on_output: OnOutput,
    ) -> None:
        self._process = process
        self._owner = owner
        self._pipes = pipes
        self._on_output = on_output
        self._one_at_a_time = asyncio.Lock()
        self._exit = asyncio.ensure_future(process.wait())
        self._readers = {asyncio.ensure_future(self._forward(stream, pipe)) for stream, pipe in pipes.items()}
        self._is_ended = False

    async def wait_for_end(self) -> int | None:
        """Return the exit status, once all output is passed on and no process is left. Raises errors of `on_output`."""
        awaited = {self._exit, *self._readers}
        while not self._exit.done():
            done, awaited = await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        await asyncio.wait(self._readers, timeout=_LAST_OUTPUT_SECONDS, return_when=asyncio.FIRST_EXCEPTION)
        await self._end()
        for pipe in self._pipes.values():
            pipe.stop_after_buffered()
        await asyncio.gather(*self._readers)
        return self._exit.result()

    async def close(self) -> None:
        """End all tasks and processes, in any state."""
        for task in (self._exit, *self._readers):
            await end_task(task)
        await self._end()

    async def _forward(self, stream: Stream, pipe: OutputPipe) -> None:
        pipe.close_writer()
        while chunk := await pipe.read():
            async with self._one_at_a_time:
                await self._on_output(stream, chunk)

    async def _end(self) -> None:
        if not self._is_ended:
            await end_instance(self._process.mark, self._process.pid, self._owner, self._process.uid)
            await self._process.wait()
            self._is_ended = True
