"""Starts a command, confined."""

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
from deployer.processes.call_filter import call_filter
from deployer.processes.children import abandon_launcher
from deployer.processes.confinement import Confinement, search_path
from deployer.processes.operators_places import operators_places
from deployer.processes.process_table import read_process
from deployer.processes.running_process import RunningProcess

# As mount(2) and /proc/*/mountinfo carry it without escapes.
_MARK = re.compile(r"[A-Za-z0-9._:/@+=-]{1,200}")

_ROOT = os.path.abspath(os.path.join(os.path.dirname(launcher.__file__), "..", ".."))

_NOBODY = 65534
_FOR_EVER = str(2**31 - 1)

_namespaces_granted = False
"""Whether the kernel has granted namespaces to this Pharos: the launcher then spares the trial."""


def start_process(
    command: str,
    *,
    variables: Mapping[str, str],
    confinement: Confinement,
    mark: str,
    stdout: int,
    stderr: int,
    dies_with_us: bool,
) -> RunningProcess:
    """Run `/bin/sh -c command` in a session of its own; return while it still confines itself, after some 2 ms.

    `mark` is how the process and all that it starts are found again: letters, digits and `._:/@+=-`, at most 200. Its
    environment is `variables`, HOME, TMPDIR, PATH and LANG where they do not name them, and the mark. `stdout` and
    `stderr` are descriptors that stay the caller's. The calling thread, which the caller's loop must run in, must live
    until `wait_started` returns; with `dies_with_us` the shell is killed when that thread ends, and in a PID namespace
    all that it started. What fails from here on is a line on `stderr` and status 125.

    Raises ValueError for what can never be started and OSError for what the system refuses, as variables that are too
    many (E2BIG: one at most 128 KiB, together about 2 MiB).
    """
    check_start(command, variables=variables, confinement=confinement, mark=mark)
    environment = {launcher.VARIABLE_PREFIX + name: value for name, value in variables.items()}
    report, reported = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        process = subprocess.Popen(
            _command(_instruct(command, confinement, mark, dies_with_us, reported)),
            env={**environment, launcher.MARK_VARIABLE: mark},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            pass_fds=(reported,),
        )
    except BaseException:
        os.close(report)
        raise
    finally:
        os.close(reported)
    # The pidfd tells of its end from here on. This object would warn of a process that outlives it.
    process.returncode = 0
    uid = os.geteuid() if confinement.owner is None else confinement.owner.uid
    return _watched(process.pid, mark, uid, report)


def _watched(pid: int, mark: str, uid: int, report: int) -> RunningProcess:
    """Raises OSError, as where no descriptor is left: nothing of it runs then."""
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
    """Raise ValueError for what can never be started. The message names no value."""
    if _MARK.fullmatch(mark) is None:
        raise ValueError("a mark has 1 to 200 letters, digits and ._:/@+=-")
    if "\0" in command or any(
        not name or "=" in name or "\0" in name + text for name, text in variables.items()
    ):
        raise ValueError("a command or a variable holds what cannot be passed on")
    if any(os.path.realpath(path) == "/" for path in confinement.hidden):
        raise ValueError("the root folder cannot be hidden")
    owner, own = confinement.owner, os.geteuid()
    if own == 0 and (owner is None or owner.uid <= 0 or owner.gid <= 0):
        raise ValueError("Pharos runs as root, so a command needs an owner that is not")
    if own != 0 and owner is not None:
        raise ValueError("Pharos does not run as root, so a command cannot have an owner")


@dataclass(frozen=True, slots=True)
class Missing:
    """Why commands have no namespaces and no call filter on this machine. None: they have."""

    namespaces: str | None
    filter: str | None


async def probe_confinement() -> Missing:
    """Try what confines commands. From then on no start tries namespaces anew that were granted."""
    global _namespaces_granted
    instruction = {
        "probe": True,
        "mark": "probe",
        "owner": [_NOBODY, _NOBODY] if os.geteuid() == 0 else None,
        "dies_with_pharos": False,
        "filter": call_filter(),
        "inits": _inits(),
    }
    probe = await asyncio.create_subprocess_exec(
        *_command(instruction),
        env={},
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    output, errors = await probe.communicate()
    try:
        missing = Missing(**json.loads(output))
    except (ValueError, TypeError):
        reason = " ".join(errors.decode(errors="replace").split()) or f"status {probe.returncode}"
        missing = Missing(f"the trial failed: {reason}", f"the trial failed: {reason}")
    _namespaces_granted = missing.namespaces is None
    return missing


async def has_namespaces() -> bool:
    """Whether this machine grants Pharos namespaces; without them users, limits and the filter confine commands."""
    return (await probe_confinement()).namespaces is None


@cache
def _inits() -> list[list[str]]:
    """Programs with arguments that wait for ever, of which the first that can be run is the init of a command.

    Python comes last for its memory, 8 MB against 1 MB.
    """
    found = ("/bin/sleep", shutil.which("sleep", path=search_path()))
    python = [os.path.realpath(sys.executable), "-I", "-S", "-c", "import signal\nwhile True: signal.pause()"]
    return [*([each, _FOR_EVER] for each in dict.fromkeys(found) if each), python]


def _command(instruction: dict[str, Any]) -> list[str]:
    # Behind the standard library, of which a package of the same name must not take the place.
    script = f"import sys; sys.path.append({_ROOT!r}); from deployer.processes.launcher import main; main()"
    return [sys.executable, "-I", "-S", "-c", script, json.dumps(instruction)]


def _instruct(
    command: str, confinement: Confinement, mark: str, dies_with_us: bool, report: int
) -> dict[str, Any]:
    owner, limits = confinement.owner, confinement.limits
    return {
        "command": command,
        "mark": mark,
        "folder": str(confinement.folder.absolute()),
        "home": str(confinement.home.absolute()),
        "hidden": [str(path.absolute()) for path in (*confinement.hidden, *operators_places())],
        "is_writable": confinement.is_writable,
        "owner": None if owner is None else [owner.uid, owner.gid],
        "path": search_path(),
        "dies_with_pharos": dies_with_us,
        "report": report,
        "has_namespaces": _namespaces_granted,
        "filter": call_filter(),
        "inits": _inits(),
        "limits": {
            "processes": limits.processes,
            "open_files": limits.open_files,
            "memory_bytes": limits.memory_bytes,
            "file_bytes": limits.file_bytes,
        },
    }
