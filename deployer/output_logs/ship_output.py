"""Stores the output of all processes of a deployer as log records.

Each line is stored once, also if the deployer is killed: see `progress`. Processes write to files, and never wait
for this module. Memory is bounded: a few batches are read at a time. If the edge does not answer, lines wait in the
files.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from sqlalchemy.exc import SQLAlchemyError

from control_domain.projects.application_keys import ApplicationKey
from control_domain.sealing import CannotOpen
from deployer.application_telemetry import ApplicationTelemetry
from deployer.describe_failure import describe_database_error
from deployer.output_logs.account_limits import BATCH_LINES, AccountLimits
from deployer.output_logs.batches import Batch, Batches
from deployer.output_logs.deployment_masks import DeploymentMasks
from deployer.output_logs.environment_keys import EnvironmentKeys
from deployer.output_logs.line_budget import LineBudget
from deployer.output_logs.log_events import Printed, make_events
from deployer.output_logs.read_output import OutputFile, list_changed
from deployer.output_logs.send_batch import Answer, send_batch
from deployer.output_logs.stopped_outputs import StoppedOutputs
from deployer.output_logs.take_lines import take_lines
from deployer.shield import end_tasks
from deployer.telemetry_variables import name_service

logger = logging.getLogger(__name__)

_POLL_SECONDS = 1.0
# Most of the time of a batch is spent waiting for the disk and the edge.
_FILES_AT_ONCE = 4
# The edge may refuse a new key this many times: the control plane publishes a key within a second of its creation.
_USUAL_REFUSALS = 2
# A new deployment creates its key within a few seconds.
_MISSING_KEY_SECONDS = 10.0
# Stops all outputs, so it is noted as one of its own.
_DATABASE = "database"
_REQUEST_SECONDS = 60.0


class OutputShipper:
    """Sends the output files below one folder to the edge."""

    def __init__(
        self,
        folder: Path,
        telemetry: ApplicationTelemetry,
        session: aiohttp.ClientSession,
        budget: LineBudget,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`folder`: the folder of the outputs. `clock`: returns seconds and is never set back."""
        self._folder = folder
        self._telemetry = telemetry
        self._session = session
        self._seen: dict[Path, tuple[int, int]] = {}
        self._due: dict[Path, OutputFile] = {}
        """Files that may have lines to store."""
        self._without_key: set[Path] = set()
        """Files that are noted as stopped because their environment has no key."""
        self._limits = AccountLimits(budget, clock)
        self._batches = Batches(self._limits)
        self._masks = DeploymentMasks(telemetry.read_values, self._limits.count_cpu_seconds, clock)
        self.keys = EnvironmentKeys(telemetry.find_keys, clock)
        self.stopped = StoppedOutputs(clock)

    async def run(self) -> None:
        """Send output until cancelled."""
        while True:
            try:
                is_busy = await self.ship_once()
            except SQLAlchemyError as error:
                self.stopped.note(_DATABASE, describe_database_error(error))
                is_busy = False
            except Exception:
                logger.exception("the output of applications could not be stored as logs")
                is_busy = False
            if not is_busy:
                await asyncio.sleep(_POLL_SECONDS)

    async def ship_once(self) -> bool:
        """Send at most one batch of each file. Return True if more may be sent at once. Raises database errors."""
        for file in await asyncio.to_thread(list_changed, self._folder, self._seen):
            self._due[file.path] = file
        self._forget_removed()
        if not self._due:
            return False
        await self.keys.refresh({file.environment_id for file in self._due.values()})
        self.stopped.clear(_DATABASE)
        files = iter(list(self._due.values()))
        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(self._ship_files(files)) for _ in range(_FILES_AT_ONCE)]
        return any(worker.result() for worker in workers)

    def _forget_removed(self) -> None:
        removed = (self._batches.list_paths() | self._due.keys()) - self._seen.keys()
        for path in removed:
            self._batches.forget(path)
            self._without_key.discard(path)
            self._due.pop(path, None)
            self.stopped.clear(str(path))
        if removed:
            self.keys.forget_all_but({path.parent.parent.name for path in self._seen})

    async def _ship_files(self, files: Iterator[OutputFile]) -> bool:
        is_busy = False
        for file in files:
            key = self.keys.get(file.environment_id)
            if key is None or self._limits.may_send(key.account_id):
                is_busy |= await self._try_file(file, key)
        return is_busy

    async def _try_file(self, file: OutputFile, key: ApplicationKey | None) -> bool:
        """Send one batch of the file, or note that it has no key. Return True if more may be sent at once."""
        try:
            if key is None:
                await self._note_missing_key(file)
                return False
            return await self._ship_file(file, key)
        except FileNotFoundError:
            # The deployment's output was removed during the pass.
            self._due.pop(file.path, None)
            self.stopped.clear(str(file.path))
        except CannotOpen as error:
            self.stopped.note(str(file.path), str(error))
        except SQLAlchemyError as error:
            self.stopped.note(str(file.path), describe_database_error(error))
        except OSError as error:
            self.stopped.note(str(file.path), f"{file.path} cannot be used: {error.strerror}")
        except Exception as error:
            # A fault of one file must not stop the logs of all applications.
            if self.stopped.note(str(file.path), f"{file.path} cannot be used: {type(error).__name__}"):
                logger.exception("%s could not be stored as logs", file.path)
        return False

    async def _note_missing_key(self, file: OutputFile) -> None:
        seconds = self.keys.absent_seconds(file.environment_id)
        if seconds < _MISSING_KEY_SECONDS or file.path in self._without_key:
            return
        reason = await self._telemetry.explain_missing_key(file.environment_id)
        # An environment that was removed, or an old output.
        if reason is None or not await self._batches.has_more(file):
            self._due.pop(file.path, None)
            self.stopped.clear(str(file.path))
            return
        self._without_key.add(file.path)
        self.stopped.note(str(file.path), reason, seconds)

    async def _ship_file(self, file: OutputFile, key: ApplicationKey) -> bool:
        self._without_key.discard(file.path)
        batch = await self._batches.find(file, key)
        if not isinstance(batch, Batch):
            if batch == "wait_for_change":
                # All lines are stored.
                self._due.pop(file.path, None)
                self.stopped.clear(str(file.path))
            return batch == "again"
        events = await self._make_events(file, key, batch)
        if not events:
            return self._take_answer(file, key, batch, Answer("stored"), 0)
        assert self._telemetry.url is not None
        batch_id = batch.progress.batch_id(file.name)
        answer = await send_batch(self._session, self._telemetry.url, key.secret, batch_id, events)
        if answer.outcome == "stored":
            self.keys.confirm(key)
            self._limits.note_stored(key.account_id)
        return self._take_answer(file, key, batch, answer, len(events))

    async def _make_events(self, file: OutputFile, key: ApplicationKey, batch: Batch) -> list[dict[str, Any]]:
        progress = batch.progress
        taken = take_lines(
            batch.piece.data, BATCH_LINES, is_in_line=progress.is_in_line, is_full=False, is_ended=True
        )
        service = name_service(key.project, file.process)
        printed = Printed(service, file.process, file.number, file.deployment_id)
        mask = await self._masks.find(key.account_id, file.environment_id, file.deployment_id)

        def make() -> tuple[list[dict[str, Any]], float]:
            begun = time.thread_time()
            events = make_events(
                taken.lines,
                printed,
                mask,
                progress.at_ms,
                left_out_lines=progress.left_out_lines,
                is_estimate=progress.is_estimate,
                is_cut=progress.is_cut,
                is_unfinished=progress.ends_in_line,
                first_step=progress.first_step,
            )
            return events, time.thread_time() - begun

        # Call this in a thread: long lines take a while to search.
        events, cpu_seconds = await asyncio.to_thread(make)
        self._limits.count_cpu_seconds(key.account_id, cpu_seconds)
        return events

    def _take_answer(
        self, file: OutputFile, key: ApplicationKey, batch: Batch, answer: Answer, events: int
    ) -> bool:
        """Note what became of a batch. Return True if more may be sent at once."""
        account = key.account_id
        if answer.outcome == "stored":
            self.stopped.clear(str(file.path))
            self._batches.note_stored(file.path)
            # The others come first: one output must not take the whole budget of the account.
            if file.path in self._due:
                self._due[file.path] = self._due.pop(file.path)
            return True
        if answer.outcome == "too_large" and events > 1:
            # Nothing of the batch is stored: the next batch begins at the same position and has the same ID.
            self._limits.note_too_large(account, events)
            self._batches.choose_again(file.path)
            return True
        if answer.outcome == "key_refused":
            if self.keys.refuse(key) > _USUAL_REFUSALS:
                self.stopped.note(str(file.path), answer.reason)
            return False
        self.stopped.note(str(file.path), answer.reason)
        if answer.outcome in ("refused", "too_large"):
            # The edge would refuse the batch each time.
            self._limits.note_refused(account)
            self._batches.leave_out(file.path)
            return True
        self._limits.note_failure(account, answer.seconds)
        return False


@asynccontextmanager
async def shipping_output(
    folder: Path, telemetry: ApplicationTelemetry
) -> AsyncIterator[Callable[[], str | None]]:
    """Send the output files below `folder` within the context. Does nothing if the URL of the edge is not known.

    Yields a function that returns one line about outputs that could not be stored for a minute. It returns None if
    there are none.
    """
    if telemetry.url is None:
        yield lambda: None
        return
    timeout = aiohttp.ClientTimeout(total=_REQUEST_SECONDS, sock_connect=10)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        shipper = OutputShipper(folder, telemetry, session, LineBudget())
        telemetry.on_key.append(shipper.keys.accept)
        task = asyncio.create_task(shipper.run(), name="output logs")
        try:
            yield shipper.stopped.describe
        finally:
            telemetry.on_key.remove(shipper.keys.accept)
            await end_tasks(task)
