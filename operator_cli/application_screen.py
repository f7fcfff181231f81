"""Where an application that is followed is shown: a terminal with a bar, or a plain stream."""

import sys
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from operator_cli.configuration_diff import open_console, printable
from operator_cli.configuration_tables import draw_end

Operation = dict[str, Any]


class ApplicationScreen:
    """Takes applications as "configuration/show" gives them."""

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
        self._told: set[int] = set()

    def __enter__(self) -> "ApplicationScreen":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def show(self, application: dict[str, Any]) -> None:
        """A line for each operation that has ended since, and how far it is; at its end also those that wait behind
        one that has failed."""
        operations: list[Operation] = application["operations"]
        ended = [one for one in operations if one["status"] not in ("pending", "running")]
        self._tell(ended if application["status"] == "running" else operations)
        running = [printable(one["resource"]) for one in operations if one["status"] == "running"]
        self._bar.update(
            self._task, completed=len(ended), total=len(operations), description=" ".join(running)
        )

    def _tell(self, operations: Iterable[Operation]) -> None:
        for operation in operations:
            if operation["id"] not in self._told:
                self._told.add(operation["id"])
                self._console.print(draw_end(operation))
        sys.stdout.flush()
