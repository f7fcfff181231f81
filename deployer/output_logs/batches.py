"""Chooses the next batch of an output file, and stores the choice on disk before the batch is sent."""

import asyncio
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec.structs import replace

from control_domain.projects.application_keys import ApplicationKey
from deployer.output_logs.account_limits import AccountLimits
from deployer.output_logs.progress import Progress, read_progress, write_progress
from deployer.output_logs.read_output import (
    Cut,
    OutputFile,
    Piece,
    estimate_lines,
    find_end,
    read_piece,
    skip_lines,
)
from deployer.output_logs.take_lines import take_lines

_BATCH_BYTES = 256 * 1024
# The older lines are left out if more bytes than this wait, as after a long outage, …
_MAX_BACKLOG = 8 * 2**20
_KEPT_BACKLOG = 2**20
# … or if so many bytes are printed between two passes that the account's budget will not catch up.
_FLOOD_BYTES = 2**20
_KEPT_FLOOD = 2**18


class Batch(NamedTuple):
    """A batch of an output file whose bounds are stored on disk, with its bytes."""

    progress: Progress
    """The stored progress of the file. `end` is the end of this batch."""
    piece: Piece


NoBatch = Literal["wait_for_change", "wait", "again"]
"""Why there is no batch: the file must change first, the account's budget must recover, or `find` must be called again
at once."""


class Batches:
    """The batches of all output files. The memory is limited: each call reads one batch at a time."""

    def __init__(self, limits: AccountLimits) -> None:
        self._limits = limits
        self._progress: dict[Path, Progress] = {}
        self._ends: dict[Path, int] = {}
        """The end of outputs at the last pass without budget."""
        self._counted: dict[Path, tuple[ApplicationKey, int]] = {}
        """Lines of the present batches that were taken from the budget of the account."""

    def list_paths(self) -> set[Path]:
        """Return the paths of the files whose progress is known."""
        return set(self._progress)

    def forget(self, path: Path) -> None:
        """Forget a file that was removed."""
        self._give_back(path)
        self._progress.pop(path, None)
        self._ends.pop(path, None)

    async def has_more(self, file: OutputFile) -> bool:
        """Return True if the file has bytes that are not stored. Raises `OSError`."""
        progress = self._progress.get(file.path)
        if progress is None:
            progress = await asyncio.to_thread(read_progress, file.path)
        if progress.end is not None:
            return True
        try:
            piece = await asyncio.to_thread(read_piece, file.path, progress.position, 1)
        except Cut:
            return False
        return piece is not None and bool(piece.data)

    def note_stored(self, path: Path) -> None:
        """Note that the batch is stored."""
        self._counted.pop(path, None)
        self._progress[path].finish_batch()

    def leave_out(self, path: Path) -> None:
        """Leave the lines of the batch out, since the edge will never accept it."""
        self._counted.pop(path, None)
        progress = self._progress[path]
        assert progress.end is not None
        progress.drop_batch(estimate_lines(progress.end - progress.position))

    def choose_again(self, path: Path) -> None:
        """Choose another batch at the same position, since nothing of this one is stored."""
        self._give_back(path)
        progress = self._progress[path]
        progress.end = None
        progress.next_step = progress.first_step

    def _give_back(self, path: Path) -> None:
        if (counted := self._counted.pop(path, None)) is not None:
            self._limits.give_back_lines(*counted)

    async def find(self, file: OutputFile, key: ApplicationKey) -> Batch | NoBatch:
        """Return the batch that is stored on disk and may have been sent already. If there is none, choose the next
        batch. Raises `OSError`."""
        progress = self._progress.get(file.path)
        if progress is None:
            progress = self._progress[file.path] = await asyncio.to_thread(read_progress, file.path)
        if progress.end is None:
            begun = await self._begin(file, key, progress)
            if isinstance(begun, str):
                return begun
            progress = self._progress[file.path] = begun
        elif not self._limits.has_cpu_seconds(key.account_id):
            # To send the batch again, its mask may have to be made again.
            return "wait"
        assert progress.end is not None
        piece = await _read(file, progress, progress.end - progress.position)
        if progress.end is None:
            self._give_back(file.path)
            return "again"
        if piece is None or piece.start != progress.position:
            # The bytes of an interrupted batch are gone: it may have been stored or not.
            self._give_back(file.path)
            progress.leave_out(estimate_lines(progress.end - progress.position), is_estimate=True)
            progress.position, progress.end, progress.is_in_line = progress.end, None, False
            return "again"
        return Batch(progress, piece)

    async def _begin(self, file: OutputFile, key: ApplicationKey, progress: Progress) -> Progress | NoBatch:
        """Choose the next batch and store it on disk. Return the progress with this batch.

        Does not change `progress`: if the write fails, no batch may be sent.
        """
        piece = await _read(file, progress, _BATCH_BYTES)
        if piece is None:
            return "wait_for_change"
        is_lost = piece.start != progress.position
        # One event reports how many lines were left out. If the batch has no space for other events, this one is a
        # batch of its own.
        most_lines = self._limits.choose_size(key) - (is_lost or progress.has_report)
        taken = take_lines(
            piece.data,
            most_lines,
            is_in_line=progress.is_in_line and not is_lost,
            is_full=len(piece.data) == _BATCH_BYTES,
            is_ended=piece.is_last and piece.is_rotated,
        )
        # Whole batches only: each second's budget would otherwise become hundreds of small ones.
        if len(taken.lines) > self._limits.count_allowed(key):
            await self._skip_flood(file, progress, piece.end)
            return "wait"
        if is_lost:
            lost = estimate_lines(piece.start - progress.position, piece.data)
            progress.leave_out(lost, is_estimate=True)
            progress.position, progress.is_in_line = piece.start, False
        if taken.size == 0 and most_lines > 0:
            if not piece.is_last:
                return "wait"
            # The file has no more whole line: store that the last batch was stored, and wait until the file changes.
            await asyncio.to_thread(write_progress, file.path, progress)
            return "wait_for_change"
        first_step = progress.next_step if piece.written_ms == progress.at_ms else 0
        begun = replace(
            progress,
            end=progress.position + taken.size,
            at_ms=piece.written_ms,
            first_step=first_step,
            next_step=first_step + len(taken.lines),
            ends_in_line=taken.is_in_line,
        )
        # Before the next pause, in which other files of the account ask how many lines are allowed.
        self._limits.count_lines(key, len(taken.lines))
        self._counted[file.path] = key, len(taken.lines)
        try:
            await asyncio.to_thread(write_progress, file.path, begun)
        except BaseException:
            self._give_back(file.path)
            raise
        return begun

    async def _skip_flood(self, file: OutputFile, progress: Progress, end: int) -> None:
        """Leave out older lines if too many wait. `end`: the end of the output."""
        backlog, printed = end - progress.position, end - self._ends.get(file.path, end)
        self._ends[file.path] = end
        if min(backlog, printed) > _FLOOD_BYTES:
            await _skip(file, progress, end - _KEPT_FLOOD)
        elif backlog > _MAX_BACKLOG:
            await _skip(file, progress, end - _KEPT_BACKLOG)


async def _read(file: OutputFile, progress: Progress, most_bytes: int) -> Piece | None:
    """Read the output from `progress.position` on. If the output is shorter than that, drop the batch and continue at
    the end of the output: lines written since then cannot be told from lines that are stored already."""
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


async def _skip(file: OutputFile, progress: Progress, target: int) -> None:
    position, lines, is_estimate = await asyncio.to_thread(skip_lines, file.path, progress.position, target)
    progress.position, progress.is_in_line = position, False
    progress.leave_out(lines, is_estimate=is_estimate)
    await asyncio.to_thread(write_progress, file.path, progress)
