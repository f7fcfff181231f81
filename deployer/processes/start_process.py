"""Starts a confined command through the launcher."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from deployer.processes import launcher
from deployer.processes.call_filter import build_call_filter
from deployer.processes.children import abandon_launcher
from deployer.processes.confinement import Confinement, build_search_path
from deployer.processes.operator_account import operator_paths
from deployer.processes.process_table import read_process
from deployer.processes.running_process import RunningProcess

# Characters that mount(2) and /proc/*/mountinfo do not escape.
_MARK = re.compile(r"[A-Za-z0-9._:/@+=-]{1,200}")

_SOURCE_ROOT = os.path.abspath(os.path.join(os.path.dirname(launcher.__file__), "..", ".."))

_NOBODY = 65534
_MAX_SLEEP_SECONDS = str(2**31 - 1)

_namespaces_granted = False
"""True if the kernel has granted namespaces to this Pharos: the launcher then skips the trial."""


def start_process(
    command: str,
    *,
    variables: Mapping[str, str],
    confinement: Confinement,
    mark: str,
    stdout: int,
    stderr: int,
    dies_with_deployer: bool,
) -> RunningProcess:
    """Run `/bin/sh -c command` in a session of its own; return after some 2 ms, while the launcher confines it.

    `mark` identifies the process and all its descendants: at most 200 letters, digits and `._:/@+=-`. The environment
    is `variables`, defaults for HOME, TMPDIR, PATH and LANG, and the mark. The caller keeps and closes the descriptors
    `stdout` and `stderr`. The calling thread, which must run the loop, must live until `wait_started` returns. With
    `dies_with_deployer`, the end of that thread kills the shell, and in a PID namespace all its descendants. Later
    failures print a line to `stderr` and end with status 125.

    Raises ValueError for arguments that can never be started, and OSError if the system refuses the start, for example
    for too many variables (E2BIG: one at most 128 KiB, together about 2 MiB).
    """
    check_start(command, variables=variables, confinement=confinement, mark=mark)
    environment = {launcher.VARIABLE_PREFIX + name: value for name, value in variables.items()}
    report, report_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        process = subprocess.Popen(
            _launcher_arguments(
                _build_instruction(command, confinement, mark, dies_with_deployer, report_writer)
            ),
            env={**environment, launcher.MARK_VARIABLE: mark},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            pass_fds=(report_writer,),
        )
    except BaseException:
        os.close(report)
        raise
    finally:
        os.close(report_writer)
    # The pidfd reports the end of the process. `Popen` would warn when it is garbage-collected without a return code.
    process.returncode = 0
    uid = os.geteuid() if confinement.owner is None else confinement.owner.uid
    return _watch_launcher(process.pid, mark, uid, report)


def _watch_launcher(pid: int, mark: str, uid: int, report: int) -> RunningProcess:
    """Watch the launcher. If no descriptor is left, kill the launcher and raise OSError."""
    descriptor = None
    try:
        descriptor = os.pidfd_open(pid)
        seen = read_process(pid)
        return RunningProcess(pid, mark, uid, descriptor, 0 if seen is None else seen.started_ticks, report)
    except BaseException:
        if descriptor is not None:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)
        abandon_launcher(pid, report)
        raise


def check_start(command: str, *, variables: Mapping[str, str], confinement: Confinement, mark: str) -> None:
    """Raise ValueError for arguments that can never be started. The message contains no value of a variable."""
    if _MARK.fullmatch(mark) is None:
        raise ValueError("a mark has 1 to 200 letters, digits and ._:/@+=-")
    if "\0" in command or any(
        not name or "=" in name or "\0" in name + text for name, text in variables.items()
    ):
        raise ValueError("a command or a variable has characters that cannot be passed to a process")
    if any(os.path.realpath(path) == "/" for path in confinement.hidden):
        raise ValueError("the root folder cannot be hidden")
    owner, own = confinement.owner, os.geteuid()
    if own == 0 and (owner is None or owner.uid <= 0 or owner.gid <= 0):
        raise ValueError("Pharos runs as root, so a command needs an owner that is not")
    if own != 0 and owner is not None:
        raise ValueError("Pharos does not run as root, so a command cannot have an owner")


@dataclass(frozen=True, slots=True)
class MissingConfinement:
    """Why this machine has no namespaces, and why it has no call filter for commands. None for each that is
    available."""

    namespaces: str | None
    filter: str | None


async def probe_confinement() -> MissingConfinement:
    """Find out whether namespaces and the call filter work here. If namespaces work, later starts skip this test."""
    global _namespaces_granted
    instruction = {
        "probe": True,
        "mark": "probe",
        "owner": [_NOBODY, _NOBODY] if os.geteuid() == 0 else None,
        "dies_with_pharos": False,
        "filter": build_call_filter(),
        "inits": _find_init_programs(),
    }
    probe = await asyncio.create_subprocess_exec(
        *_launcher_arguments(instruction),
        env={},
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    output, errors = await probe.communicate()
    try:
        missing = MissingConfinement(**json.loads(output))
    except (ValueError, TypeError):
        reason = " ".join(errors.decode(errors="replace").split()) or f"status {probe.returncode}"
        missing = MissingConfinement(f"the trial failed: {reason}", f"the trial failed: {reason}")
    _namespaces_granted = missing.namespaces is None
    return missing


async def has_namespaces() -> bool:
    """Return True if this machine grants Pharos namespaces. Without them, users, limits and the filter confine
    commands."""
    return (await probe_confinement()).namespaces is None


@cache
def _find_init_programs() -> list[list[str]]:
    """Return command lines that wait forever; the launcher runs the first one that works as the init of a command.

    Python is last, since it needs 8 MB instead of 1 MB.
    """
    found = ("/bin/sleep", shutil.which("sleep", path=build_search_path()))
    python = [os.path.realpath(sys.executable), "-I", "-S", "-c", "import signal\nwhile True: signal.pause()"]
    return [*([each, _MAX_SLEEP_SECONDS] for each in dict.fromkeys(found) if each), python]


def _launcher_arguments(instruction: dict[str, Any]) -> list[str]:
    # Append to the path: a package must not shadow the standard library.
    script = (
        f"import sys; sys.path.append({_SOURCE_ROOT!r}); from deployer.processes.launcher import main; main()"
    )
    return [sys.executable, "-I", "-S", "-c", script, json.dumps(instruction)]


def _build_instruction(
    command: str, confinement: Confinement, mark: str, dies_with_deployer: bool, report: int
) -> dict[str, Any]:
    owner, limits = confinement.owner, confinement.limits
    return {
        "command": command,
        "mark": mark,
        "folder": str(confinement.folder.absolute()),
        "home": str(confinement.home.absolute()),
        "hidden": [str(path.absolute()) for path in (*confinement.hidden, *operator_paths())],
        "is_writable": confinement.is_writable,
        "owner": None if owner is None else [owner.uid, owner.gid],
        "path": build_search_path(),
        "dies_with_pharos": dies_with_deployer,
        "report": report,
        "has_namespaces": _namespaces_granted,
        "filter": build_call_filter(),
        "inits": _find_init_programs(),
        "limits": {
            "processes": limits.processes,
            "open_files": limits.open_files,
            "memory_bytes": limits.memory_bytes,
            "file_bytes": limits.file_bytes,
        },
    }
