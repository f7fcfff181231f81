"""Ctrl-C while `pharos` still imports its modules."""

import subprocess
import sys

import pytest

from tests.support.commands import CLEAN_ENVIRONMENT

# Sends the signal during the search for a module, in the middle of the imports.
_INTERRUPTED = """
import os, signal, sys

module = sys.argv.pop(1)
signal.signal(signal.SIGINT, signal.default_int_handler)


class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)


sys.meta_path.insert(0, Interrupting())
from operator_cli.main import main

main()
"""
# The command prints how it would handle the signal.
_HANDLED = """
import signal, sys, types

signal.signal(signal.SIGINT, getattr(signal, sys.argv.pop(1)))
command = types.ModuleType("operator_cli.settings")
told = lambda arguments: print(getattr(signal.getsignal(signal.SIGINT), "__name__", "SIG_IGN"))
command.register_settings = lambda commands: commands.add_parser("settings").set_defaults(run=told)
sys.modules["operator_cli.settings"] = command
from operator_cli.main import main

main()
"""


def _run(script: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", script, *arguments, "settings"]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, env=CLEAN_ENVIRONMENT)


@pytest.mark.parametrize(
    "module", ["operator_cli.run_command", "pipeline_contracts.settings", "operator_cli.settings"]
)
def test_an_interrupt_during_imports_prints_one_sentence(module: str) -> None:
    done = _run(_INTERRUPTED, module)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "pharos: Interrupted before the command began.\n"


@pytest.mark.parametrize("handler", ["default_int_handler", "SIG_IGN"])
def test_a_command_inherits_the_interrupt_handling_of_its_parent(handler: str) -> None:
    """An ignored signal stays ignored, as in a background job of a shell."""
    done = _run(_HANDLED, handler)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{handler}\n", "")
