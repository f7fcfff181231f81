"""Runs a command to its end: a step of a build or of a release."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from typing import Literal

from deployer.processes.confinement import Confinement, Owner
from deployer.processes.exits import count_oom_kills, describe_own_exit
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
    """The command did not end well. The message is the end of a sentence, and tells nothing of the command itself."""


class StepTimedOut(StepFailed):
    """It was ended because its time was over."""


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
    """Run the command with `start_process` and hand its output on, one chunk of up to 64 KiB at a time.

    The next chunk is read when `on_output` has returned: whoever is slow slows the command down, and nothing piles up.
    The step is over when its shell has ended. What still runs a second later is killed, by the mark and, with
    `is_owner_alone`, by the owner of the confinement, who then must run nothing else. That happens in every way out:
    before this raises StepFailed, what `on_output` raised, or a cancellation, nothing is left. Raises ValueError as
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
                dies_with_us=True,
            )
        except OSError as fault:
            raise StepFailed(f"could not be started: {fault.strerror}") from fault
        alone = confinement.owner if is_owner_alone else None
        step = _Step(process, alone, {"stdout": out, "stderr": err}, on_output)
        limit = asyncio.timeout(timeout_seconds)
        try:
            async with limit:
                status = await step.follow()
        except TimeoutError:
            if not limit.expired():
                raise
            raise StepTimedOut(f"took longer than {timeout_seconds:g} s and was ended") from None
        finally:
            await shield(step.close())
    if process.fault is not None:
        raise StepFailed(process.fault)
    if status != 0:
        raise StepFailed(describe_own_exit(status, count_oom_kills() - oom_kills))


class _Step:
    """A command that runs, and the tasks that hand its output on."""

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
        self._readers = {asyncio.ensure_future(self._hand_on(stream, pipe)) for stream, pipe in pipes.items()}
        self._is_ended = False

    async def follow(self) -> int | None:
        """Its exit status, when all output was handed on and nothing of it is left. Raises what `on_output` does."""
        awaited = {self._exit, *self._readers}
        while not self._exit.done():
            done, awaited = await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        await asyncio.wait(self._readers, timeout=_LAST_OUTPUT_SECONDS, return_when=asyncio.FIRST_EXCEPTION)
        await self._end()
        for pipe in self._pipes.values():
            pipe.take_last()
        await asyncio.gather(*self._readers)
        return self._exit.result()

    async def close(self) -> None:
        """End what runs, in whatever state this is."""
        for task in (self._exit, *self._readers):
            await end_task(task)
        await self._end()

    async def _hand_on(self, stream: Stream, pipe: OutputPipe) -> None:
        pipe.close_writer()
        while chunk := await pipe.read():
            async with self._one_at_a_time:
                await self._on_output(stream, chunk)

    async def _end(self) -> None:
        if not self._is_ended:
            await end_instance(self._process.mark, self._process.pid, self._owner, self._process.uid)
            await self._process.wait()
            self._is_ended = True
