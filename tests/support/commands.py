"""Runs `pharos` commands as an operator does."""

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support import fork_server
from tests.support.platform_process import PHAROS

RunCommand = Callable[..., "subprocess.CompletedProcess[str]"]
CLEAN_ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PHAROS_")}
"""The environment of the test process without Pharos settings."""


def command_runner(folder: Path, environment: Mapping[str, str] = CLEAN_ENVIRONMENT) -> RunCommand:
    """Return a function that runs a command in this folder with this environment.

    Its `without` names variables to leave out; `stdin` is the command's input.
    """

    def run(
        *arguments: str, without: tuple[str, ...] = (), stdin: str = ""
    ) -> "subprocess.CompletedProcess[str]":
        return fork_server.run(
            [str(PHAROS), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=180,
            env={name: value for name, value in environment.items() if name not in without},
            cwd=folder,
        )

    return run


def run_json(pharos: RunCommand, *command: str) -> Any:
    """Return the document that a command prints with `--json`."""
    done = pharos(*command, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def run_text(pharos: RunCommand, *command: str) -> str:
    """Return the text that a command prints for people."""
    done = pharos(*command)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def expect_refusal(pharos: RunCommand, *command: str, status: int = 1) -> str:
    """Return the one-line error message of a command that exits with this status."""
    done = pharos(*command)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith("pharos: ") and len(done.stderr.splitlines()) == 1
    return done.stderr.removeprefix("pharos: ").rstrip("\n")
