"""What the one who sends gets to see: messages while it runs, and the sums at the end."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from operator_cli.failure import CommandFailed

_SHOWN_FAULTS = 5


@dataclass(slots=True)
class Totals:
    """The sums over all files. `resent` counts requests that were sent again; which of them the server had stored
    the first time it alone knows (`duplicates` in the receipts)."""

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
    """Counts, and writes messages through `write`, a whole line each. `strict`: a fault ends the sending."""

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
        self._said: dict[str, float] = {}

    def note(self, message: str) -> None:
        """Say something."""
        self.write(f"pharos: {message}")

    def note_now_and_then(self, kind: str, message: str, seconds: float = 10.0) -> None:
        """Say something of this kind unless it was said a few seconds ago."""
        now = self._clock()
        if now - self._said.get(kind, -seconds) >= seconds:
            self._said[kind] = now
            self.note(message)

    def skip_line(self, file: str, line: int, reason: str) -> None:
        """A line that was not sent. Raises `CommandFailed` when strict."""
        self.totals.skipped_lines += 1
        self._show_fault(f"{file}:{line}: {reason}")

    def refuse_event(self, file: str, line: int, reason: str) -> None:
        """A line that the server did not take. Raises `CommandFailed` when strict."""
        self.totals.refused_events += 1
        self._show_fault(f"{file}:{line}: refused: {reason}")

    def _show_fault(self, text: str) -> None:
        if self._strict:
            raise CommandFailed(f"{text}. Stopped there (--strict); what was sent before is not sent again.")
        self._faults += 1
        if self._faults <= _SHOWN_FAULTS:
            self.note(text)
        elif self._faults == _SHOWN_FAULTS + 1:
            self.note("more lines like this follow; the sum is shown at the end")


def _write_to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
