"""Show the progress of a configuration run: a progress bar at a terminal, or plain lines."""

import sys
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from operator_cli.configuration.diff import escape_unprintable, open_console
from operator_cli.configuration.run_tables import format_outcome

Step = dict[str, Any]


class RunScreen:
    """Prints the state of a configuration run after each update."""

    def __init__(self) -> None:
        console = open_console()
        self._console = console
        self._bar = Progress(
            TextColumn("applying"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}", markup=False),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=None)
        self._printed: set[int] = set()

    def __enter__(self) -> "RunScreen":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def show(self, run: dict[str, Any]) -> None:
        """Print a line for each step that has ended, and update the bar.

        After the end of the run, also print the steps that wait after a failed one.
        """
        steps: list[Step] = run["operations"]
        ended = [step for step in steps if step["status"] not in ("pending", "running")]
        self._print(ended if run["status"] == "running" else steps)
        running = [escape_unprintable(step["resource"]) for step in steps if step["status"] == "running"]
        self._bar.update(self._task, completed=len(ended), total=len(steps), description=" ".join(running))

    def _print(self, steps: Iterable[Step]) -> None:
        for step in steps:
            if step["id"] not in self._printed:
                self._printed.add(step["id"])
                self._console.print(format_outcome(step))
        sys.stdout.flush()
