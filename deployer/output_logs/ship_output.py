"""Stores the output of all processes of a deployer as log records.

Each line is stored once, also if the deployer is killed: see `progress`. Processes write to files and never wait for
this. Memory is bounded: one batch is read at a time. If the edge does not answer, lines wait in the files.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from msgspec.structs import replace
from sqlalchemy.exc import SQLAlchemyError

from control_domain.projects.application_keys import ApplicationKey
from control_domain.sealing import CannotOpen
from deployer.application_telemetry import ApplicationTelemetry
from deployer.describe_failure import describe_database_error
from deployer.output_logs.deployment_masks import DeploymentMasks
from deployer.output_logs.line_budget import LineBudget
from deployer.output_logs.log_events import Printed, make_events
from deployer.output_logs.progress import Progress, read_progress, write_progress
from deployer.output_logs.read_output import (
    Cut,
    OutputFile,
    Piece,
    estimate_lines,
    find_end,
    list_changed,
    read_piece,
    skip_lines,
)
from deployer.output_logs.send_batch import Answer, send_batch
from deployer.output_logs.stopped_outputs import StoppedOutputs
from deployer.output_logs.take_lines import take_lines
from deployer.shield import end_tasks
from deployer.telemetry_variables import name_service

logger = logging.getLogger(__name__)

_POLL_SECONDS = 1.0
# Stops all outputs, so it is noted as one of its own.
_DATABASE = "database"
_KEYS_SECONDS = 30.0
_BATCH_BYTES = 256 * 1024
_BATCH_LINES = 500
# Beyond the account's budget, older lines are left out: if more than this waits, as after a long outage …
_MAX_BACKLOG = 8 * 2**20
_KEPT_BACKLOG = 2**20
# … or if so much is printed within a pass that the budget will not catch up.
_FLOOD_BYTES = 2**20
_KEPT_FLOOD = 2**18
_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0
_REQUEST_SECONDS = 60.0


class OutputShipper:
    """Ships the output files below one folder."""

    def __init__(
        self,
        folder: Path,
        telemetry: ApplicationTelemetry,
        session: aiohttp.ClientSession,
        budget: LineBudget,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`folder`: of outputs; `clock` returns seconds and is never set back."""
        self._folder = folder
        self._telemetry = telemetry
        self._session = session
        self._budget = budget
        self._clock = clock
        self._seen: dict[Path, tuple[int, int]] = {}
        self._due: dict[Path, OutputFile] = {}
        """Files that may have lines to store."""
        self._progress: dict[Path, Progress] = {}
        self._masks = DeploymentMasks(telemetry.read_values)
        self._ends: dict[Path, int] = {}
        """The end of outputs at the last pass without budget."""
        self._keys: dict[str, ApplicationKey] = {}
        self._keys_read_at: dict[str, float] = {}
        self._wait_until: dict[int, float] = {}
        """When the next batch of an account may be sent."""
        self._failures: dict[int, int] = {}
        self._most_events: dict[int, int] = {}
        """How many events a batch of an account may have, if the edge has refused a batch as too large."""
        self.stopped = StoppedOutputs(self._clock)

    async def run(self) -> None:
        """Ship until cancelled."""
        while True:
            try:
                is_busy = await self.ship_once()
            except SQLAlchemyError as error:
                self.stopped.note(_DATABASE, describe_database_error(error))
                is_busy = False
            except Exception:
                # One bad file must not end the logs of all applications.
                logger.exception("the output of applications could not be stored as logs")
                is_busy = False
            if not is_busy:
                await asyncio.sleep(_POLL_SECONDS)

    async def ship_once(self) -> bool:
        """Send at most one batch of each file. Return True if more may be sent at once."""
        for file in await asyncio.to_thread(list_changed, self._folder, self._seen):
            self._due[file.path] = file
        for path in self._progress.keys() - self._seen.keys():
            del self._progress[path]
            self._ends.pop(path, None)
            self._due.pop(path, None)
            self.stopped.clear(str(path))
        if not self._due:
            return False
        await self._read_keys({file.environment_id for file in self._due.values()})
        self.stopped.clear(_DATABASE)
        is_busy = False
        for file in list(self._due.values()):
            key = self._keys.get(file.environment_id)
            if key is not None and self._wait_until.get(key.account_id, 0.0) <= self._clock():
                is_busy |= await self._try_file(file, key)
        return is_busy

    async def _try_file(self, file: OutputFile, key: ApplicationKey) -> bool:
        try:
            return await self._ship_file(file, key)
        except FileNotFoundError:
            # The deployment's output was removed meanwhile.
            self._due.pop(file.path, None)
            self.stopped.clear(str(file.path))
        except CannotOpen as error:
            self.stopped.note(str(file.path), str(error))
        except OSError as error:
            self.stopped.note(str(file.path), f"{file.path} cannot be used: {error.strerror}")
        return False

    async def _read_keys(self, environments: set[str]) -> None:
        now = self._clock()
        stale = {
            environment
            for environment in environments
            if now - self._keys_read_at.get(environment, float("-inf")) >= _KEYS_SECONDS
        }
        if not stale:
            return
        found = await self._telemetry.find_keys(stale)
        for environment in stale:
            self._keys_read_at[environment] = now
            self._keys.pop(environment, None)
        self._keys.update(found)

    async def _ship_file(self, file: OutputFile, key: ApplicationKey) -> bool:
        """Send one batch of the file. Return True if it was stored, and more may follow."""
        progress = self._progress.get(file.path)
        if progress is None:
            progress = self._progress[file.path] = await asyncio.to_thread(read_progress, file.path)
        if progress.end is None:
            begun = await self._begin_batch(file, key, progress)
            if begun is None:
                return False
            progress = self._progress[file.path] = begun
        assert progress.end is not None
        piece = await self._read(file, progress, progress.end - progress.position)
        if progress.end is None:
            return True
        if piece is None or piece.start != progress.position:
            # The bytes of an interrupted batch are gone: it may have been stored or not.
            progress.leave_out(estimate_lines(progress.end - progress.position), is_estimate=True)
            progress.position, progress.end, progress.is_in_line = progress.end, None, False
            return True
        answer, events = await self._send(file, key, progress, piece)
        return self._take_answer(file, key, progress, answer, events)

    async def _begin_batch(
        self, file: OutputFile, key: ApplicationKey, progress: Progress
    ) -> Progress | None:
        """Choose the next batch and write it down. Return the progress with it; None if there is nothing to send now.

        `progress` gets no batch: if the write fails, none must be sent.
        """
        allowed = self._budget.available(key.account_id, key.ingest_rate)
        piece = await self._read(file, progress, _BATCH_BYTES)
        if piece is None:
            self._due.pop(file.path, None)
            return None
        is_lost = piece.start != progress.position
        # One event says how many lines were left out. If there is no room for others, it is a batch of its own.
        most_lines = self._choose_size(key) - (is_lost or progress.has_report)
        taken = take_lines(
            piece.data,
            most_lines,
            is_in_line=progress.is_in_line and not is_lost,
            is_full=len(piece.data) == _BATCH_BYTES,
            is_ended=piece.is_last and piece.is_rotated,
        )
        # Whole batches only: each second's budget would otherwise become hundreds of small ones.
        if len(taken.lines) > allowed:
            backlog, printed = piece.end - progress.position, piece.end - self._ends.get(file.path, piece.end)
            self._ends[file.path] = piece.end
            if min(backlog, printed) > _FLOOD_BYTES:
                await self._skip(file, progress, piece.end - _KEPT_FLOOD)
            elif backlog > _MAX_BACKLOG:
                await self._skip(file, progress, piece.end - _KEPT_BACKLOG)
            return None
        if is_lost:
            lost = estimate_lines(piece.start - progress.position, piece.data)
            progress.leave_out(lost, is_estimate=True)
            progress.position, progress.is_in_line = piece.start, False
        if taken.size == 0 and most_lines > 0:
            if piece.is_last:
                # No whole line is left: write down that the last batch is stored, and wait for a change.
                await asyncio.to_thread(write_progress, file.path, progress)
                self._due.pop(file.path, None)
            return None
        begun = replace(
            progress,
            end=progress.position + taken.size,
            at_ms=piece.written_ms,
            ends_in_line=taken.is_in_line,
        )
        await asyncio.to_thread(write_progress, file.path, begun)
        self._budget.take(key.account_id, len(taken.lines))
        return begun

    def _choose_size(self, key: ApplicationKey) -> int:
        """Return how many events the next batch of the account may have."""
        most = min(_BATCH_LINES, self._budget.most_events(key.ingest_rate, key.ingest_burst))
        return min(most, self._most_events.get(key.account_id, most))

    async def _read(self, file: OutputFile, progress: Progress, most_bytes: int) -> Piece | None:
        """Read from the progress on. If the output is shorter than that, drop the batch, and continue at the end: what
        was written since is not told from what is stored already."""
        try:
            piece = await asyncio.to_thread(read_piece, file.path, progress.position, most_bytes)
            is_whole = piece is None or piece.start != progress.position or len(piece.data) == most_bytes
            if progress.end is not None and not is_whole:
                raise Cut
            return piece
        except Cut:
            end = await asyncio.to_thread(find_end, file.path)
            progress.continue_at(end.position, is_in_line=end.is_in_line, is_cut=not end.is_empty)
            return await asyncio.to_thread(read_piece, file.path, progress.position, most_bytes)

    async def _skip(self, file: OutputFile, progress: Progress, target: int) -> None:
        position, lines, is_estimate = await asyncio.to_thread(
            skip_lines, file.path, progress.position, target
        )
        progress.position, progress.is_in_line = position, False
        progress.leave_out(lines, is_estimate=is_estimate)
        await asyncio.to_thread(write_progress, file.path, progress)

    async def _send(
        self, file: OutputFile, key: ApplicationKey, progress: Progress, piece: Piece
    ) -> tuple[Answer, int]:
        """Send the batch. Return what became of it, and its number of events."""
        taken = take_lines(
            piece.data,
            _BATCH_LINES,
            is_in_line=progress.is_in_line,
            is_full=False,
            is_ended=True,
        )
        service = name_service(key.project, file.process)
        printed = Printed(service, file.process, file.number, file.deployment_id)
        mask = await self._masks.find(file.environment_id, file.deployment_id)
        # In a thread: long lines take a while to search.
        events = await asyncio.to_thread(
            make_events,
            taken.lines,
            printed,
            mask,
            progress.at_ms,
            left_out_lines=progress.left_out_lines,
            is_estimate=progress.is_estimate,
            is_cut=progress.is_cut,
            is_unfinished=progress.ends_in_line,
        )
        if not events:
            return Answer("stored"), 0
        assert self._telemetry.url is not None
        answer = await send_batch(
            self._session, self._telemetry.url, key.secret, progress.batch_id(file.name), events
        )
        return answer, len(events)

    def _take_answer(
        self, file: OutputFile, key: ApplicationKey, progress: Progress, answer: Answer, events: int
    ) -> bool:
        account = key.account_id
        if answer.outcome == "stored":
            self._failures.pop(account, None)
            self.stopped.clear(str(file.path))
            if events and (most := self._most_events.pop(account, _BATCH_LINES)) < _BATCH_LINES:
                # The limit may have been raised: find out step by step.
                self._most_events[account] = most + 1
            progress.finish_batch()
            # The others come first: one output must not take the whole budget of the account.
            if file.path in self._due:
                self._due[file.path] = self._due.pop(file.path)
            return True
        if answer.outcome == "too_large" and events > 1:
            # Nothing of it is stored: the next batch begins at the same position, with the same ID.
            self._most_events[account] = events // 2
            progress.end = None
            return True
        self.stopped.note(str(file.path), answer.reason)
        if answer.outcome in ("refused", "too_large"):
            # A repetition would be refused as well. If one event is too large, more of the others are not.
            self._most_events.pop(account, None)
            assert progress.end is not None
            size, lost = progress.end - progress.position, progress.left_out_lines
            progress.finish_batch()
            if size:
                progress.leave_out(lost + estimate_lines(size), is_estimate=True)
            return True
        if answer.outcome == "key_refused":
            # The next deployment gets a new key.
            self._keys.pop(file.environment_id, None)
            return False
        failures = self._failures.get(account, 0)
        self._failures[account] = failures + 1
        seconds = answer.seconds or min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(failures, 10))
        self._wait_until[account] = self._clock() + seconds
        return False


@asynccontextmanager
async def shipping_output(
    folder: Path, telemetry: ApplicationTelemetry
) -> AsyncIterator[Callable[[], str | None]]:
    """Ship the output files below `folder` within the context. Does nothing if the URL of the edge is not known.

    Yields a function that returns one line about outputs that have not been stored for a minute; None if there are
    none.
    """
    if telemetry.url is None:
        yield lambda: None
        return
    timeout = aiohttp.ClientTimeout(total=_REQUEST_SECONDS, sock_connect=10)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        shipper = OutputShipper(folder, telemetry, session, LineBudget())
        task = asyncio.create_task(shipper.run(), name="output logs")
        try:
            yield shipper.stopped.describe
        finally:
            await end_tasks(task)
