"""`pharos services list`."""

import argparse
from typing import Any

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

_VERBS = {"list": "list services with the rate, the errors and the latency of their requests"}
_DESCRIPTIONS = {
    "list": "Requests are telemetry events of the types request and job, and spans of the kinds Server and Consumer. "
    "p50, p95 and p99 are percentiles of their durations."
}


def register_services(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "services",
        help="services, with the rate, errors and latency of their requests",
        description="Services that send telemetry. `pharos services` alone lists them.",
    )
    add_verbs(parser, _VERBS, _run, _add_arguments, _DESCRIPTIONS, default="list")


def _add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    add_environment_option(parser)
    add_range_arguments(parser, "1h")
    add_limit_argument(parser, 100)


def _run(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    environment = resolve_environment(api, arguments.environment, effect=Effect.READS)
    path = ("environments", environment.id, "services")
    services = api.get_all(*path, query=encode_range(arguments), limit=arguments.limit)
    return print_result(
        arguments, services, lambda rows: _show(arguments, rows, environment.path), quiet="service"
    )


def _show(arguments: argparse.Namespace, services: list[dict[str, Any]], path: str) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from operator_cli.tables import Column, print_table

    print_table(
        arguments,
        [
            Column("Service"),
            *(Column(title, is_number=True) for title in ("Requests", "Rate", "Errors", "p50", "p95", "p99")),
        ],
        [
            (
                service["service"],
                f"{service['requests']:,}",
                _format_rate(service["rate"]),
                f"{100 * service['error_rate']:.2f} %" if service["errors"] else None,
                *(_format(service["latency"][name]) for name in ("p50_ms", "p95_ms", "p99_ms")),
            )
            for service in services
        ],
        empty=describe_no_results("requests", path, arguments),
    )


def _format_rate(a_second: float) -> str:
    """Return a rate a second, a minute or an hour, so that it is 1 or more."""
    rates = ((a_second, "s"), (a_second * 60, "min"), (a_second * 3600, "h"))
    rate, unit = next((each for each in rates if each[0] >= 0.995), rates[-1])
    return f"{rate:,.1f}".removesuffix(".0") + f"/{unit}"


def _format(milliseconds: float | None) -> str | None:
    from operator_cli.durations import format_duration

    return None if milliseconds is None else format_duration(milliseconds / 1000)
