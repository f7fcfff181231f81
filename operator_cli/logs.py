"""`pharos logs`: the newest log records, the log of a deployment, or what the processes of an environment print."""

import argparse

from operator_cli.deployment_log import show_deployment_log
from operator_cli.failure import CommandFailed
from operator_cli.log_records import SEVERITIES, show_records
from operator_cli.process_output import show_output
from operator_cli.reading_arguments import WHICH_STORE, add_reading_arguments

_LINES = 50
_OF_RECORDS = ("service", "severity", "search", "trace", "environment")


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "logs",
        help="show the newest log records, a deployment's log, or what an environment's processes print",
        description="Without WHAT: log records that came over OTLP and telemetry events of type log, the newest last. "
        "A number: the log of that deployment (all of it, up to 1,000 lines). An environment: what its running "
        f"processes print, on the machine of its deployer. {WHICH_STORE}",
    )
    parser.add_argument(
        "what",
        nargs="?",
        metavar="WHAT",
        help="a deployment's number; or an environment, env_…, its slug, or PROJECT/SLUG",
    )
    parser.add_argument(
        "-f", "--follow", action="store_true", help="keep showing what comes in; end with Ctrl-C"
    )
    parser.add_argument("--service", default="", metavar="NAME", help="of this service")
    parser.add_argument("--severity", choices=list(SEVERITIES), help="of this one or worse")
    parser.add_argument("--search", default="", metavar="TEXT", help="with this in their text")
    parser.add_argument("--trace", default="", metavar="ID", help="of this trace")
    add_reading_arguments(parser, since="1h", lines=_LINES)
    # Told apart: of a deployment all is shown where nobody says how many.
    parser.set_defaults(run=_run, lines=None)


def _run(arguments: argparse.Namespace) -> int:
    what = arguments.what
    if what is None:
        return show_records(arguments, arguments.lines or _LINES)
    for name in _OF_RECORDS:
        if getattr(arguments, name):
            raise CommandFailed(f"--{name} chooses among log records: leave {what} out, or --{name}.")
    if what.isdecimal():
        return show_deployment_log(arguments, int(what), arguments.lines)
    return show_output(arguments, what, arguments.lines or _LINES)
