"""Shows the progress of the measurements on standard error."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

_TICK = 0.25


class Progress:
    """Two lines: one for the whole run, one for the current step. Made by `showing_progress`."""

    def __init__(self, shown: RichProgress, whole: TaskID) -> None:
        self._shown = shown
        self._whole = whole

    def begin_part(self, name: str) -> None:
        """Begin to show a part of the benchmark."""
        self._shown.update(self._whole, description=name)

    def end_part(self) -> None:
        """End the part that is shown."""
        self._shown.advance(self._whole)

    async def pass_time(self, label: str, seconds: float) -> None:
        """Wait for `seconds` and show a progress bar."""
        begun = time.monotonic()
        with self.step(label, seconds) as report_progress:
            while (passed := time.monotonic() - begun) < seconds:
                report_progress(passed)
                await asyncio.sleep(min(_TICK, seconds - passed))

    @contextmanager
    def step(self, label: str, total: float | None) -> Iterator[Callable[[float], None]]:
        """Begin a step. Call the returned function with the amount that is done; `total` is the whole
        amount."""
        task = self._shown.add_task(f"  {label}", total=total)
        try:
            yield lambda done: self._shown.update(task, completed=done)
        finally:
            self._shown.remove_task(task)


@contextmanager
def showing_progress(parts: int) -> Iterator[Progress]:
    """Show the progress of a run with this number of parts. Show nothing if standard error is not a
    terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with RichProgress(
        *columns, console=console, transient=True, refresh_per_second=4, disable=not console.is_terminal
    ) as shown:
        yield Progress(shown, shown.add_task("", total=parts))
