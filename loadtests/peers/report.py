"""Prints the comparison: the CPU time per record and its spread, and the ratio of Pharos to each peer."""

from collections.abc import Sequence
from statistics import median

from rich.console import Console
from rich.table import Table

from loadtests.peers.measure import CASES, Taken
from loadtests.peers.servers import PEERS


def show_comparison(console: Console, taken: Sequence[Taken]) -> None:
    """Print a table for each rate. The number after ± is the distance between the median and the round that is
    farthest from it."""
    for rate in dict.fromkeys(each.rate for each in taken):
        title = f"{rate:,} requests a second" if rate else "Full speed"
        table = Table("CPU µs a record", title=title, title_justify="left", box=None, pad_edge=False)
        for peer in PEERS:
            table.add_column(peer, justify="right", no_wrap=True)
        for case in dict.fromkeys(each.case for each in taken):
            here = [each for each in taken if each.case == case and each.rate == rate]
            goals = CASES[case].goals
            table.add_row(
                case, *(_spread([each.cpu_us for each in here if each.peer == peer]) for peer in PEERS)
            )
            table.add_row("  Pharos / peer", *(_ratio(here, case, peer) for peer in PEERS))
            table.add_row(
                "  goal", *(f"≤ {goals[peer]:g}" if peer in goals else "" for peer in PEERS), style="dim"
            )
            table.add_row("  p99, ms", *(_latency(here, peer) for peer in PEERS), style="dim")
            table.add_section()
        console.print(table)
        console.print()


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "–"
    middle = median(values)
    return f"{_short(middle)} ±{_short(max(max(values) - middle, middle - min(values)))}"


def ratios(taken: Sequence[Taken], peer: str) -> list[float]:
    """Return the CPU time of Pharos divided by that of the peer, for each round that has both."""
    of_pharos = {each.round: each.cpu_us for each in taken if each.peer == "Pharos"}
    return [
        of_pharos[each.round] / each.cpu_us for each in taken if each.peer == peer and each.round in of_pharos
    ]


def _ratio(taken: Sequence[Taken], case: str, peer: str) -> str:
    found = ratios(taken, peer)
    if not found or peer == "Pharos":
        return ""
    goal = CASES[case].goals.get(peer)
    if goal is None:
        return _spread(found)
    return f"[{'green' if median(found) <= goal else 'red'}]{_spread(found)}[/]"


def _latency(taken: Sequence[Taken], peer: str) -> str:
    values = [each.p99_ms for each in taken if each.peer == peer]
    return f"{median(values):.0f}" if values else ""


def _short(value: float) -> str:
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 3 else f"{value:.2f}"
