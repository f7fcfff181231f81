"""Prints figures as a table and as JSON."""

import math
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

from loadtests.bench.figures import Figure
from loadtests.bench.process_usage import machine_size

_PACKAGES = ("aiohttp", "uvloop", "msgspec", "chdb-core", "fastapi")


def describe_machine() -> dict[str, str]:
    """Return texts about the processor, the operating system, and the versions of Python and of packages."""
    versions = " ".join(f"{name} {version(name)}" for name in _PACKAGES)
    cores, memory = machine_size()
    return {
        "processor": f"{_processor()}, {cores} cores, {memory:.0f} GB",
        "system": platform.platform(),
        "python": f"{platform.python_version()}; {versions}",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def show_table(console: Console, figures: Sequence[Figure], machine: Mapping[str, str]) -> None:
    """Print the figures, grouped by part."""
    for name, value in machine.items():
        console.print(f"{name:<10} {value}", style="dim", highlight=False, soft_wrap=True)
    table = Table("Part", "Figure", box=None, pad_edge=False)
    for heading in ("Measured", "Target"):
        table.add_column(heading, justify="right")
    table.add_column("")
    before = ""
    for figure in figures:
        if before and figure.part != before:
            table.add_section()
        table.add_row(
            figure.part if figure.part != before else "",
            figure.name,
            f"{_number(figure.value)} {figure.unit}".strip(),
            _target(figure),
            {None: "", True: "[green]reached[/]", False: "[red]missed[/]"}[figure.reached],
        )
        before = figure.part
    console.print(table)


def _target(figure: Figure) -> str:
    if figure.target is None:
        return ""
    sign = "≤" if figure.bound == "at_most" else "≥"
    return f"{sign} {_number(figure.target)} {figure.unit}".strip()


def _number(value: float) -> str:
    # Counts are whole numbers; measured values have decimals.
    if math.isnan(value):
        return "-"
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.2f}"


def to_json(figures: Sequence[Figure], machine: Mapping[str, str], quick: bool) -> bytes:
    """Return the figures as JSON: `{"machine": …, "quick": …, "figures": [{part, name, value, unit,
    target, …}]}`."""
    rows = [
        {
            "part": figure.part,
            "name": figure.name,
            "value": figure.value,
            "unit": figure.unit,
            "target": figure.target,
            "bound": figure.bound if figure.target is not None else None,
            "reached": figure.reached,
        }
        for figure in figures
    ]
    document = {"machine": dict(machine), "quick": quick, "figures": rows}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n"
