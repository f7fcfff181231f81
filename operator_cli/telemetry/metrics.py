"""`pharos metrics list|series`."""

import argparse
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from operator_cli.api.client import open_api
from operator_cli.api.default_environment import Effect
from operator_cli.api.names import resolve_environment
from operator_cli.arguments import add_verbs
from operator_cli.counts import add_limit_argument
from operator_cli.messages import print_result
from operator_cli.telemetry.time_range import (
    add_environment_option,
    add_range_arguments,
    describe_no_results,
    encode_range,
)

_VERBS = {
    "list": "list metrics in the order of their names",
    "series": "show the values of a metric as a chart; --json prints them as numbers",
}
_DESCRIPTIONS = {
    "series": "rate is the increase of a counter per second, sum its increase in a step. If a name "
    "is reported with several kinds, the kind that was reported last is read.",
}
_CHART_WIDTH: Final = 30
_AGGREGATIONS: Final = ("avg", "min", "max", "sum", "count", "rate", "p50", "p95", "p99")


def register_metrics(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "metrics",
        help="metrics and their values",
        description="Metrics that were received over OTLP, and telemetry events of type metric. `pharos metrics` alone "
        "lists them.",
    )
    add_verbs(parser, _VERBS, _run, _add_arguments, _DESCRIPTIONS, default="list")


def _add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    add_environment_option(parser)
    parser.add_argument("--service", metavar="NAME", help="of this service")
    if verb == "list":
        parser.add_argument(
            "--search", metavar="TEXT", help="only metrics whose name contains this text, in any case"
        )
        add_range_arguments(parser, "1d")
        add_limit_argument(parser, 100)
        return
    parser.add_argument("metric", metavar="METRIC", help="the name of the metric")
    parser.add_argument(
        "--aggregation",
        choices=_AGGREGATIONS,
        help="an aggregation that fits its kind, from `list --json`; by default the first one",
    )
    parser.add_argument(
        "--step", metavar="TIME", help="30s, 5m: the length of a step (a hundredth of the time)"
    )
    parser.add_argument(
        "--group-by", metavar="NAME", help="a series for each value of service, or of this attribute"
    )
    parser.add_argument("--attribute", metavar="NAME=VALUE", help="only points with this attribute")
    add_range_arguments(parser, "1h")
    parser.add_argument(
        "-n", "--groups", type=int, default=10, metavar="N", help="how many groups, the largest (10; 1 to 50)"
    )


def _run(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    environment = resolve_environment(api, arguments.environment, effect=Effect.READS)
    path = ("environments", environment.id, "metrics")
    within = encode_range(arguments)
    if arguments.verb == "list":
        query = {"search": arguments.search, "service": arguments.service, **within}
        metrics = api.get_all(*path, query=query, limit=arguments.limit)
        return print_result(
            arguments, metrics, lambda rows: _show_list(arguments, rows, environment.path), quiet="name"
        )
    query = {
        "step": arguments.step,
        "aggregation": arguments.aggregation,
        "group_by": arguments.group_by,
        "groups": arguments.groups,
        "service": arguments.service,
        "attribute": arguments.attribute,
        **within,
    }
    found = api.get(*path, arguments.metric, "series", query=query)
    return print_result(arguments, found, lambda series: _show_series(arguments, series, environment.path))


def _show_list(arguments: argparse.Namespace, metrics: list[dict[str, Any]], path: str) -> None:
    # Imported here and below: rich is slow to import, and --json needs none of it.
    from operator_cli.durations import format_minute
    from operator_cli.tables import Column, print_table

    print_table(
        arguments,
        [
            Column("Metric", wraps=False),
            Column("Kind", wraps=False),
            Column("Unit", wraps=False),
            Column("Last seen", wraps=False),
            Column("Services", is_optional=True),
        ],
        [
            (
                metric["name"],
                metric["kind"],
                metric["unit"],
                format_minute(metric["last_seen"]),
                ", ".join(metric["services"]) or None,
            )
            for metric in metrics
        ],
        empty=describe_no_results("metrics", path, arguments),
    )


def _show_series(arguments: argparse.Namespace, found: dict[str, Any], path: str) -> None:
    from operator_cli.durations import format_duration
    from operator_cli.tables import Column, print_table
    from operator_cli.terminal_text import sanitize

    shown = [series for series in found["series"] if series["points"]]
    if shown:
        unit = f", in {found['unit']}" if found["unit"] else ""
        step = format_duration(found["step_seconds"])
        print(sanitize(f"{found['name']}: {found['aggregation']} of every {step}{unit}"))
    times = [datetime.fromisoformat(point["at"]).timestamp() for each in shown for point in each["points"]]
    print_table(
        arguments,
        [
            *([Column(found["group_by"])] if found["group_by"] else []),
            Column("Chart", wraps=False),
            *(Column(title, is_number=True) for title in ("Lowest", "Highest", "Last")),
        ],
        [
            (
                *([series["group"] or "-"] if found["group_by"] else []),
                _draw(series["points"], min(times), max(times), found["step_seconds"]),
                *(_format(value) for value in _summarize(series["points"])),
            )
            for series in shown
        ],
        empty=describe_no_results("values", path, arguments),
    )
    if found["other_groups"]:
        print(f"{found['other_groups']:,} more groups; -n shows more.")


def _summarize(points: Sequence[dict[str, Any]]) -> tuple[float, float, float]:
    """Return the lowest, the highest and the last value."""
    values = [point["value"] for point in points]
    return min(values), max(values), values[-1]


def _draw(points: Sequence[dict[str, Any]], begin: float, end: float, step_seconds: int) -> str:
    """Return a line of block characters from the first to the last step of all series, a space where there is no value.

    If a column has several steps, the highest value is drawn.
    """
    from operator_cli.sites.report_chart import draw_columns

    steps = int((end - begin) / step_seconds) + 1
    columns: list[float | None] = [None] * min(_CHART_WIDTH, steps)
    for point in points:
        step = (datetime.fromisoformat(point["at"]).timestamp() - begin) / step_seconds
        column = int(step * len(columns) / steps)
        columns[column] = max(point["value"], columns[column] or 0.0)
    highest = max((value for value in columns if value is not None), default=0.0)
    (line,) = draw_columns([value or 0.0 for value in columns], highest, 1, 1)
    return line


def _format(value: float) -> str:
    """Return the number with at least four digits, without superfluous ones."""
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"
