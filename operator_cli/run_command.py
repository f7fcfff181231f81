"""Reads the arguments of `pharos` and runs one command."""

import contextlib
import errno
import importlib
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from operator_cli.errors import FAILED, INTERRUPTED, USAGE, CommandFailed
from operator_cli.grammar.build_parser import build_parser
from operator_cli.grammar.commands import COMMANDS, COMPLETE, find_command
from operator_cli.messages import qualify_commands
from operator_cli.paused_garbage_collector import paused_garbage_collector
from pipeline_contracts.settings import BadSettings

_WRITE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def run_command(on_parsed: Callable[[], None]) -> NoReturn:
    """Run the command that `sys.argv` names, and exit; `on_parsed` is called just before the command runs.

    `operator_cli.errors` and `docs/reference/command-line.md` list the exit statuses.
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
            if announce := getattr(arguments, "announce", None):
                announce(arguments)
            run = _load(arguments.run)
        on_parsed()
        status = run(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
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
        _discard_output()
        status = 0
    except OSError as error:
        # Errors of files contain the name of the file.
        if error.errno not in _WRITE_ERRORS or error.filename is not None:
            raise
        _discard_output()
        print(
            f"pharos: The output cannot be written: {error.strerror}. The command may have done what you asked: check "
            "before you repeat it, and replace a secret that it has made.",
            file=sys.stderr,
        )
        status = FAILED
    sys.exit(status)


def _discard_output() -> None:
    """Discard unwritten output: the interpreter would otherwise fail to write it again at exit."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _load(run: Callable[..., int] | str) -> Callable[..., int]:
    """Return the function of a command.

    A command may name it as `MODULE:FUNCTION`: then neither `--help` nor completion imports the module. A command whose
    import takes long may also set `announce`, which is called with the arguments before the import.
    """
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
