"""Messages while files are sent, and the totals for the summary."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from operator_cli.errors import CommandFailed

_MAX_SHOWN_FAULTS = 5


@dataclass(slots=True)
class Totals:
    """Totals over all files. `resent` counts retried requests; `duplicates` of their receipts counts repeated ones."""

    files: int = 0
    events_sent: int = 0
    accepted: int = 0
    batches: int = 0
    resent: int = 0
    skipped_lines: int = 0
    refused_events: int = 0
    bytes_read: int = 0
    bytes_sent: int = 0
    seconds: float = 0.0


class Report:
    """Counts, and writes messages through `write`, a whole line each. With `strict` the first fault is an error."""

    def __init__(
        self,
        strict: bool,
        write: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.totals = Totals()
        self.write = write or _write_to_stderr
        self._strict = strict
        self._clock = clock
        self._faults = 0
        self._last_printed: dict[str, float] = {}

    def print_message(self, message: str) -> None:
        """Print a message."""
        self.write(f"pharos: {message}")

    def print_throttled(self, kind: str, message: str, seconds: float = 10.0) -> None:
        """Print a message unless one of this kind was printed within `seconds`."""
        now = self._clock()
        if now - self._last_printed.get(kind, -seconds) >= seconds:
            self._last_printed[kind] = now
            self.print_message(message)

    def skip_line(self, file: str, line: int, reason: str) -> None:
        """Report a line that was not sent. Raises `CommandFailed` when strict."""
        self.totals.skipped_lines += 1
        self._show_fault(f"{file}:{line}: {reason}")

    def refuse_event(self, file: str, line: int, reason: str) -> None:
        """Report an event that the server refused. Raises `CommandFailed` when strict."""
        self.totals.refused_events += 1
        self._show_fault(f"{file}:{line}: refused: {reason}")

    def _show_fault(self, text: str) -> None:
        if self._strict:
            raise CommandFailed(f"{text}. Stopped there (--strict); what was sent before is not sent again.")
        self._faults += 1
        if self._faults <= _MAX_SHOWN_FAULTS:
            self.print_message(text)
        elif self._faults == _MAX_SHOWN_FAULTS + 1:
            self.print_message("more lines like this follow; the sum is shown at the end")


def _write_to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
