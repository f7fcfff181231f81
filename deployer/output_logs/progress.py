"""Stores next to each output file how much of the output is stored as logs.

A position counts bytes from the beginning of the output, including bytes that were rotated away. The bounds of a
batch are stored on disk before the batch is sent: after a restart, the deployer sends the same bytes with the same
batch ID, and the edge stores them once.
"""

import hashlib
import secrets
from pathlib import Path

import msgspec

from deployer.write_atomically import write_atomically

_MAX_BYTES = 4096
_PAST_ANY_END = 2**62


class Progress(msgspec.Struct):
    """How much of one output file is stored as logs."""

    epoch: str
    """A random part of the batch IDs. When positions lose their meaning, a new one is chosen."""
    position: int = 0
    """Everything before this position is stored or left out."""
    end: int | None = None
    """The end of the batch that begins at `position` and may have been sent. None if there is no such batch."""
    at_ms: int = 0
    """The time of the lines in the batch."""
    first_step: int = 0
    """Number of lines in earlier batches with the same `at_ms`. The time of each line is one microsecond later."""
    next_step: int = 0
    """`first_step` of the following batch, if it has the same `at_ms`."""
    ends_in_line: bool = False
    """True if the batch ends inside a line."""
    is_in_line: bool = False
    """True if `position` is inside a line whose beginning is stored. The rest of that line is left out."""
    left_out_lines: int = 0
    """Number of lines that were left out since the last stored batch. The next batch reports it."""
    is_estimate: bool = False
    """True if `left_out_lines` is an estimate, because some lines could not be counted."""
    is_cut: bool = False
    """True if the end of the output was lost since the last stored batch; the next batch reports it."""

    def batch_id(self, name: str) -> str:
        """Return the ID of the batch that begins at `position`. `name` is unique among the outputs of the
        environment."""
        place = f"{name}:{self.epoch}:{self.position}"
        if self.end == self.position:
            # This batch only reports lines that were left out. The next one begins at the same position, and needs
            # another ID.
            place += ":left out"
        digest = hashlib.blake2b(place.encode(), digest_size=20)
        return "output-" + digest.hexdigest()

    @property
    def has_report(self) -> bool:
        """Return True if the next batch reports missing lines."""
        return self.left_out_lines > 0 or self.is_cut

    def finish_batch(self) -> None:
        """Record that the batch is stored."""
        assert self.end is not None
        self.position, self.end = self.end, None
        self.is_in_line = self.ends_in_line
        self.left_out_lines, self.is_estimate, self.is_cut = 0, False, False

    def drop_batch(self, lines: int) -> None:
        """Leave out the lines of the batch, because the edge will never accept it. `lines`: their estimated
        number."""
        lost, is_report_only = self.left_out_lines, self.end == self.position
        self.finish_batch()
        if not is_report_only:
            self.leave_out(lost + lines, is_estimate=True)

    def continue_at(self, position: int, *, is_in_line: bool, is_cut: bool) -> None:
        """Continue at `position`, the end of an output that has become shorter."""
        self.epoch, self.position, self.end = secrets.token_hex(8), position, None
        self.is_in_line, self.is_cut = is_in_line, self.is_cut or is_cut

    def leave_out(self, lines: int, *, is_estimate: bool) -> None:
        """Count lines that were left out."""
        self.left_out_lines += lines
        self.is_estimate = self.is_estimate or is_estimate


def new_progress(position: int = 0) -> Progress:
    return Progress(secrets.token_hex(8), position)


def read_progress(output: Path) -> Progress:
    """Return the progress of an output file, or a new progress if none is stored.

    Raises `OSError` if the stored progress cannot be read now: with a new progress, the whole output would be stored
    a second time.
    """
    try:
        with _progress_path(output).open("rb") as file:
            return msgspec.json.decode(file.read(_MAX_BYTES), type=Progress)
    except FileNotFoundError:
        return new_progress()
    except msgspec.DecodeError:
        # A position after the end of every output, so that the reader continues at the end.
        return new_progress(_PAST_ANY_END)


def write_progress(output: Path, progress: Progress) -> None:
    """Store the progress. When this function returns, the progress is on the disk. Raises `OSError`."""
    write_atomically(_progress_path(output), msgspec.json.encode(progress).decode())


def _progress_path(output: Path) -> Path:
    return output.with_name(f"{output.name}-stored.json")
