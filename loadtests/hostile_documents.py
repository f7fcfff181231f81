"""`python -m loadtests.hostile_documents`: measures the CPU time and the memory that reading hostile documents
takes."""

import argparse
import json
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from rich.console import Console
from rich.table import Table

from control_domain.configurations.documents.bindings import BadBindings
from control_domain.configurations.documents.read_document import read_configuration
from control_domain.documents.faults import DocumentFault
from control_domain.sealing import SealingKeys
from control_domain.workflows.read_workflow import read_workflow
from tests.support.costly_configurations import COSTLY
from tests.support.hostile_documents import CONFIGURATION, KINDS, LARGE, TRICKY, WORKFLOW, fill_text

MAX_CPU_MS = 50.0
MAX_MB = 20.0
_KEYS = SealingKeys.read("a key for variables of this measurement")


@dataclass(frozen=True, slots=True)
class Cost:
    """What it costs to read one text: the CPU time in ms (the minimum of several runs), and the peak memory in
    MB (2^20 bytes)."""

    kind: str
    text: str
    cpu_ms: float
    peak_mb: float

    @property
    def is_over(self) -> bool:
        """Return True if the cost exceeds a limit."""
        return self.cpu_ms > MAX_CPU_MS or self.peak_mb > MAX_MB


def _readings() -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Yield the documents with the functions that read them."""
    for name, (text, _) in {**TRICKY, **LARGE}.items():
        for kind in KINDS:
            yield kind, name, partial(_READERS[kind], fill_text(text, kind))
    for name, (text, bindings, _) in COSTLY.items():
        yield CONFIGURATION, name, partial(_read_configuration, text, bindings)


def _read_configuration(text: str, bindings: Any) -> None:
    read_configuration(text, bindings, lambda value: _KEYS.digest(value, "prj_1"))


_READERS: dict[str, Callable[[str], Any]] = {
    WORKFLOW: read_workflow,
    CONFIGURATION: partial(_read_configuration, bindings={}),
}


def _measure(kind: str, name: str, read: Callable[[], Any], times: int) -> Cost:
    # The first run loads data that stays in memory, such as time zones.
    _try(read)
    cpu = []
    for _ in range(times):
        before = time.process_time()
        _try(read)
        cpu.append(time.process_time() - before)
    tracemalloc.start()
    _try(read)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return Cost(kind, name, 1000 * min(cpu), peak / 2**20)


def _try(read: Callable[[], Any]) -> None:
    with suppress(DocumentFault, BadBindings):
        read()


def _show(costs: list[Cost], rows: int) -> None:
    table = Table("Document", "Text", box=None, pad_edge=False)
    for heading in (f"CPU, ms (≤ {MAX_CPU_MS:g})", f"Peak, MB (≤ {MAX_MB:g})"):
        table.add_column(heading, justify="right")
    for cost in costs[:rows]:
        style = "red" if cost.is_over else None
        table.add_row(cost.kind, cost.text, f"{cost.cpu_ms:.1f}", f"{cost.peak_mb:.1f}", style=style)
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table)
    console.print(f"{len(costs)} texts; the most memory is {max(cost.peak_mb for cost in costs):.1f} MB.")


def main() -> int:
    """Return exit status 0 if every document is within its limits; 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.hostile_documents", description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="read each so many times (%(default)d)")
    parser.add_argument("--rows", type=int, default=30, help="show the costliest ones (%(default)d)")
    parser.add_argument("--json", action="store_true", help="print JSON, all of them")
    arguments = parser.parse_args()
    measured = [_measure(*reading, arguments.times) for reading in _readings()]
    costs = sorted(measured, key=lambda cost: -cost.cpu_ms)
    if arguments.json:
        print(json.dumps({"texts": [asdict(cost) for cost in costs]}))
    else:
        _show(costs, arguments.rows)
    return 1 if any(cost.is_over for cost in costs) else 0


if __name__ == "__main__":
    sys.exit(main())
