"""Command `pharos query`: a read-only query against the column store of a running `pharos up`."""

import argparse
import json
import sys

from operator_cli.credentials import add_data_argument
from operator_cli.local.operator_socket import query_socket


def register_query(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "query",
        help="query the column store in SQL",
        description="Run one read-only query in ClickHouse's SQL, for example: "
        "SELECT type, count() FROM pharos.telemetry_events GROUP BY type. "
        "Its limits are 60 s, 1 GiB of memory and 64 MiB of result.",
    )
    parser.add_argument("sql", help="the query; - reads it from standard input")
    add_data_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, one row a line")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    sql = sys.stdin.read() if arguments.sql == "-" else arguments.sql
    lines = query_socket(arguments.data, sql)
    if arguments.json:
        sys.stdout.write(lines)
        return 0
    rows = [json.loads(line) for line in lines.splitlines()]
    if not rows:
        print("No rows.")
        return 0
    from rich.console import Console
    from rich.table import Table

    table = Table(*rows[0], box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(value if isinstance(value, str) else json.dumps(value) for value in row.values()))
    Console().print(table)
    return 0
