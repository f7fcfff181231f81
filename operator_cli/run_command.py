"""Reads the arguments of `pharos` and runs one command."""

import contextlib
import importlib
import sys
from collections.abc import Callable
from typing import NoReturn

from operator_cli.errors import FAILED, INTERRUPTED, USAGE, CommandFailed
from operator_cli.grammar.build_parser import build_parser
from operator_cli.grammar.commands import COMMANDS, COMPLETE, find_command
from operator_cli.messages import qualify_commands
from operator_cli.paused_garbage_collector import paused_garbage_collector
from pipeline_contracts.settings import BadSettings


def run_command(on_parsed: Callable[[], None]) -> NoReturn:
    """Run the command that `sys.argv` names, and exit; `on_parsed` is called just before the command runs.

    `operator_cli.errors` and `docs/command-line.md` list the exit statuses.
    """
    words = sys.argv[1:]
    if words[:1] == [COMPLETE]:
        _complete(words[1:])
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    chosen = find_command(words[0]) if words else None
    if chosen is not None:
        words[0] = chosen
    usage_status = USAGE if chosen is None else COMMANDS[chosen].usage_status
    try:
        with paused_garbage_collector():
            parser = build_parser(chosen)
            arguments = parser.parse_args(words)
            run = _load(arguments.run)
        on_parsed()
        status = run(arguments)
    except BadSettings as error:
        print(qualify_commands(f"pharos: bad settings\n{error}"), file=sys.stderr)
        status = usage_status
    except CommandFailed as error:
        print(qualify_commands(f"pharos: {error}"), file=sys.stderr)
        status = _failure_status(error, usage_status)
    except KeyboardInterrupt:
        status = INTERRUPTED
    except BrokenPipeError:
        # `pharos tail | head` ends this way; an error message would have no reader.
        sys.stderr.close()
        status = 0
    sys.exit(status)


def _load(run: Callable[..., int] | str) -> Callable[..., int]:
    """Return the function of a command, which may be given as `MODULE:FUNCTION`: then `--help` and completion do not
    import what the command needs."""
    if not isinstance(run, str):
        return run
    module, _, function = run.partition(":")
    loaded: Callable[..., int] = getattr(importlib.import_module(f"operator_cli.{module}"), function)
    return loaded


def _failure_status(error: CommandFailed, usage_status: int) -> int:
    """Return the exit status. A command that uses 2 for a result has one status for all failures but wrong usage."""
    if error.exit_status == USAGE or usage_status == USAGE:
        return usage_status if error.exit_status == USAGE else error.exit_status
    return FAILED


def _complete(words: list[str]) -> NoReturn:
    # Imported here: no other command needs it.
    from operator_cli.grammar.completion import print_candidates

    with contextlib.suppress(BrokenPipeError):
        print_candidates(words)
        sys.stdout.flush()
    sys.exit(0)
