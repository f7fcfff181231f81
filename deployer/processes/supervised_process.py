"""Keeps a long-running process running: restarts it when it ends."""

import asyncio
import contextlib
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Literal

from deployer.processes.confinement import Confinement
from deployer.processes.exits import count_oom_kills, describe_exit, describe_unexpected_exit
from deployer.processes.marks import StillRunning
from deployer.processes.output_file import end_line, open_output, truncate_output
from deployer.processes.running_process import RunningProcess
from deployer.processes.start_process import check_start, start_process
from storage_backends.end_task import end_task

logger = logging.getLogger(__name__)

_POLL_SECONDS = 1.0
_STEADY_SECONDS = 60.0
"""A process that ran for this many seconds resets the restart delay."""

_FIRST_DELAY_SECONDS = 0.1
_SECOND_DELAY_SECONDS = 1.0
_MAX_DELAY_SECONDS = 60.0

State = Literal["starting", "running", "waiting", "stopped"]


class SupervisedProcess:
    """Supervises one instance. The output goes to a file, so the process can outlive the deployer. The next deployer
    process finds the process by its mark.

    `state`: "starting" until the process runs, "running", "waiting" between its end and its next start, "stopped"
    before `start` and after `stop`. `last_exit` is a predicate ("was ended by signal 15 (SIGTERM)").
    """

    def __init__(
        self,
        *,
        command: str,
        variables: Mapping[str, str],
        confinement: Confinement,
        mark: str,
        output: Path,
        output_bytes: int = 10 * 2**20,
        on_change: Callable[["SupervisedProcess"], None],
        adopted: RunningProcess | None = None,
        clock: Callable[[], float] = time.monotonic,
        renew: Callable[[], tuple[str, Mapping[str, str]]] | None = None,
    ) -> None:
        """`on_change` is called in the loop after every change of `state`, and must not raise.

        `output_bytes` is the size at which the file is truncated; as much again is kept in `<output>.1`. `adopted` is a
        process that an earlier deployer started with the same mark; `clock` returns seconds. `renew` is called before
        each restart, and returns the new mark and variables; it may raise OSError. Raises ValueError for arguments that
        can never be started.
        """
        check_start(command, variables=variables, confinement=confinement, mark=mark)
        self._command = command
        self._variables = variables
        self._confinement = confinement
        self._output = output
        self._output_bytes = output_bytes
        self._on_change = on_change
        self._clock = clock
        self._renew = renew
        self._adopted = adopted
        self._process: RunningProcess | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._oom_kills: deque[int] = deque([count_oom_kills()], maxlen=2)
        """The machine's count of processes killed for lack of memory, up to two seconds old."""
        self.mark = mark
        self.state: State = "stopped"
        self.restarts = 0
        self.last_exit: str | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def started_at(self) -> datetime | None:
        """Return the start time of the running process, in UTC. None if it does not run."""
        return None if self._process is None else self._process.started_at

    def start(self) -> None:
        """Start the process, or watch the adopted one, and restart it whenever it ends. A second call has no effect."""
        if not self._tasks:
            self._change("starting")
            self._tasks = [asyncio.ensure_future(each) for each in (self._supervise(), self._watch_output())]

    async def stop(self, grace_seconds: float) -> None:
        """End the process as `RunningProcess.end` does, and do not restart it. Raises StillRunning, and OSError if the
        machine has no resources to search its processes; the caller then retries."""
        await self._end_tasks()
        # Also ends an adopted process if `start` was never called.
        process = self._process or self._adopted
        try:
            if process is not None:
                await process.end(grace_seconds)
                self.last_exit = describe_exit(await process.wait())
        except OSError:
            self._process = process
            raise
        except BaseException:
            self._forget_process()
            raise
        self._forget_process()

    def _forget_process(self) -> None:
        self._process = self._adopted = None
        self._change("stopped")

    async def detach(self) -> None:
        """Stop supervising and let the process run, for a deployer that ends and whose successor adopts the process."""
        await self._end_tasks()
        if self._process is not None:
            await self._process.wait_started()
            self._process.detach()
            self._process = None

    async def _end_tasks(self) -> None:
        for task in self._tasks:
            await end_task(task)
        self._tasks = []

    async def _supervise(self) -> None:
        short_runs = 0
        while True:
            begun = self._clock()
            try:
                await self._run_once()
            except Exception:
                # Keep the task running: nothing else would restart the application.
                logger.exception("the supervision of %s failed: it is restarted", self.mark)
                self.last_exit = "could not be supervised: the deployer's own log says why"
                await self._end_rest()
            short_runs = 1 if self._clock() - begun >= _STEADY_SECONDS else short_runs + 1
            self._process = None
            self._change("waiting")
            await asyncio.sleep(compute_restart_delay(short_runs))
            self.restarts += 1
            self._change("starting")

    async def _run_once(self) -> None:
        """Run the process until it and all its workers, which could keep its port, have ended. Set `last_exit`."""
        try:
            self._process = self._adopted or self._start_process()
        except OSError as fault:
            self.last_exit = f"could not be started: {fault.strerror}"
            return
        self._adopted = None
        await self._process.wait_started()
        if self._process.fault is None:
            self._change("running")
        status = await self._process.wait()
        exit_description = describe_unexpected_exit(status, count_oom_kills() - self._oom_kills[0])
        self.last_exit = self._process.fault or exit_description
        await self._end_rest()
        # The output of the next start begins on a line of its own.
        with contextlib.suppress(OSError):
            end_line(self._output)

    async def _end_rest(self) -> None:
        """Try to end the remaining processes. If this fails, the next start tries again."""
        if self._process is None:
            return
        try:
            await self._process.end(0)
        except (StillRunning, OSError) as error:
            # OSError: the machine has no descriptor, memory or thread for the search.
            logger.warning("%s may have left processes behind: %s", self.mark, error)
        except Exception:
            logger.exception("%s may have left processes behind", self.mark)

    def _start_process(self) -> RunningProcess:
        if self.restarts and self._renew is not None:
            self.mark, self._variables = self._renew()
        output = open_output(self._output, self._confinement.owner)
        try:
            return start_process(
                self._command,
                variables=self._variables,
                confinement=self._confinement,
                mark=self.mark,
                stdout=output,
                stderr=output,
                dies_with_deployer=False,
            )
        finally:
            os.close(output)

    async def _watch_output(self) -> None:
        is_logged = False
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            try:
                self._oom_kills.append(count_oom_kills())
                await asyncio.to_thread(truncate_output, self._output, self._output_bytes)
                is_logged = False
            except OSError:
                # Without the file, or on a failing disk, there is nothing to truncate.
                continue
            except Exception:
                # For example, no thread may be free. Log this only once, because the next attempts may fail in the same
                # way.
                if not is_logged:
                    logger.exception("the output of %s could not be truncated: trying again", self.mark)
                is_logged = True

    def _change(self, state: State) -> None:
        self.state = state
        self._on_change(self)


def compute_restart_delay(short_runs: int) -> float:
    """Return the delay in seconds after this number of short runs in a row. A long run counts as the first short
    one."""
    if short_runs <= 1:
        return _FIRST_DELAY_SECONDS
    # Bound the exponent too, since a huge power would not fit into a float.
    return min(_SECOND_DELAY_SECONDS * 2.0 ** min(short_runs - 2, 10), _MAX_DELAY_SECONDS)
