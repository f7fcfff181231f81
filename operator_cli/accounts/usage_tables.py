"""Print the usage of an account as tables with bars."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from operator_cli.sites.report_chart import draw_bar
from operator_cli.tables import Column, print_table

_KINDS: Final = {
    "events": "Events",
    "spans": "Spans",
    "log_records": "Logs",
    "metric_points": "Metrics",
    "pageviews": "Views",
}
_BAR_WIDTH: Final = 12


def show_usage(arguments: argparse.Namespace, usage: dict[str, Any]) -> None:
    """Print the number of objects, and the stored data by day, by environment and by site."""
    counts = ", ".join(f"{name} {count:,}" for name, count in usage["counts"].items())
    print(counts)
    days = usage["days"]
    kinds = [kind for kind in _KINDS if any(day[kind] for day in days)]
    if not kinds:
        print(f"Nothing was stored from {usage['since']} through {usage['until']}, UTC.")
        return
    print(f"\nStored from {usage['since']} through {usage['until']}, UTC:\n")
    _show_rows(arguments, "Day", kinds, [(day["day"], day) for day in days])
    for title, name in (("Environment", "environments"), ("Site", "sites")):
        rows = [(_name(each), _sum(each["days"])) for each in usage[name]]
        if rows:
            print()
            _show_rows(
                arguments, title, [kind for kind in kinds if any(row[1].get(kind) for row in rows)], rows
            )


def _name(usage: Mapping[str, Any]) -> str:
    """Return `shop/production` for an environment, `Shop (shop)` for a site."""
    project = usage["project"]["slug"]
    if "environment" in usage:
        return f"{project}/{usage['environment']['slug']}"
    return f"{usage['site']['name']} ({project})"


def _sum(days: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    return {kind: sum(day.get(kind, 0) for day in days) for kind in _KINDS}


def _show_rows(
    arguments: argparse.Namespace,
    title: str,
    kinds: Sequence[str],
    rows: Sequence[tuple[str, Mapping[str, int]]],
) -> None:
    """Print a row for each name, with a bar for the sum of its numbers."""
    totals = [sum(numbers[kind] for kind in kinds) for _, numbers in rows]
    print_table(
        arguments,
        [
            Column(title, wraps=False),
            *(Column(_KINDS[kind], is_number=True) for kind in kinds),
            Column("Total", wraps=False, is_optional=True),
        ],
        [
            (
                name,
                *(f"{numbers[kind]:,}" if numbers[kind] else None for kind in kinds),
                Text(draw_bar(total, max(totals), _BAR_WIDTH), style="cyan"),
            )
            for (name, numbers), total in zip(rows, totals, strict=True)
        ],
        empty="",
    )
