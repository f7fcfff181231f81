"""Starts a command, confined. `main` runs in an interpreter of its own, which start_process.py starts.

Python cannot do this safely between fork and exec in a process with threads. The interpreter imports this module
instead of running it as a script, since Python caches the compiled form only of imported modules. The argument is a
JSON object that start_process.py builds. It contains no secrets, since all users can read arguments. The command's
variables come in the environment under a prefix: with a plain LD_PRELOAD, the loader would load that library into the
launcher, as root. On failure, the launcher prints one line to standard error and exits with status 125. Standard
library only.

If the kernel grants namespaces, the launcher starts two processes in a new PID namespace, an init that only waits and
the command, both as children of Pharos (CLONE_PARENT), reports their pids and ends. When the init is killed, the kernel
kills all processes of the namespace, even hidden ones. Otherwise the launcher becomes the command itself.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from deployer.processes.group_access import cover_disks, cover_run_folders
from deployer.processes.kernel_calls import (
    can_clone,
    clone_sibling,
    drop_privileges,
    install_call_filter,
    set_parent_death_signal,
)
from deployer.processes.mounts import APP_FOLDER, HOME_FOLDER, enter_namespaces, mount_folders
from deployer.processes.resource_limits import apply_limits, choose_limits

# Not imported at run time: both imports take as long as the whole confinement.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

MARK_VARIABLE = "PHAROS_INSTANCE"
VARIABLE_PREFIX = "PHAROS_GIVEN_"
STATUS_NOT_STARTED = 125

_OUT_OF_MEMORY_SCORE = "500"


def main() -> None:
    """Run the instruction in `sys.argv[1]`, a JSON object. Never returns."""
    try:
        instruction = json.loads(sys.argv[1])
        if "probe" in instruction:
            _probe(instruction)
            os._exit(0)
        _run(instruction)
    except (OSError, ValueError, KeyError) as fault:
        reason = " ".join(str(fault).split())
        os.write(2, f"pharos: the command could not be started: {reason}\n".encode(errors="replace"))
    os._exit(STATUS_NOT_STARTED)


def _run(instruction: dict[str, Any]) -> None:
    # The kernel kills the launcher when Pharos ends, so that the next deployer finds no half-started command.
    _die_with_deployer(instruction["report"])
    with open("/proc/self/oom_score_adj", "w") as score:
        score.write(_OUT_OF_MEMORY_SCORE)
    folder, home = folders = instruction["folder"], instruction["home"]
    for path in folders:
        # Report a missing folder here: further below, the error would look like a kernel that grants no namespaces.
        os.close(os.open(path, os.O_PATH | os.O_DIRECTORY))
    limits = choose_limits(instruction)
    # If Pharos had namespaces before, a refusal is an error: a full table must not weaken the confinement.
    if instruction["has_namespaces"] or not _find_namespace_obstacle(instruction, folders):
        sources = enter_namespaces(instruction["mark"], folders, instruction["owner"])
        _start_init_and_command(instruction)
        if instruction["owner"] is None:
            cover_run_folders()
            cover_disks()
        mount_folders(sources, instruction["is_writable"], instruction["hidden"])
        folder, home = APP_FOLDER, HOME_FOLDER
    else:
        os.write(instruction["report"], b"stays\n")
    apply_limits(limits)
    _become_owner(instruction)
    os.chdir(folder)
    os.umask(0o027)
    # Only the exec of the command closes the report, which tells Pharos that the command runs.
    os.set_inheritable(instruction["report"], False)
    os.closerange(3, instruction["report"])
    os.closerange(instruction["report"] + 1, os.sysconf("SC_OPEN_MAX"))
    _reset_signals()
    variables = _build_environment(instruction["mark"], instruction["path"], home)
    os.execve("/bin/sh", ["/bin/sh", "-c", instruction["command"]], variables)


def _become_owner(instruction: dict[str, Any]) -> None:
    drop_privileges(instruction["owner"])
    _die_with_deployer(instruction["report"] if instruction["dies_with_pharos"] else None)
    install_call_filter(instruction["filter"])


def _start_init_and_command(instruction: dict[str, Any]) -> None:
    """Start the init and the command. Return only in the process of the command, which leads a new session. The
    launcher and the init never return."""
    init = _start_init(instruction, clone_sibling)
    reader, writer = os.pipe()
    command = clone_sibling()
    if command == 0:
        os.close(writer)
        # If the launcher is killed before it has reported, Pharos finds this process in the launcher's process group.
        if os.read(reader, 1) != b"g":
            os._exit(STATUS_NOT_STARTED)
        os.close(reader)
        os.setsid()
        return
    os.write(instruction["report"], f"{init} {command}\n".encode())
    os.write(writer, b"g")
    os._exit(0)


def _start_init(instruction: dict[str, Any], fork: Callable[[], int]) -> int:
    """Start the init of the PID namespace; return its pid once it runs. Raises OSError with the reason."""
    reader, writer = os.pipe()
    init = fork()
    if init == 0:
        try:
            _become_init(instruction, writer)
        except OSError as fault:
            os.write(writer, str(fault).encode(errors="replace"))
        os._exit(STATUS_NOT_STARTED)
    os.close(writer)
    # The exec of the init's program closes the other end of the pipe.
    with open(reader, errors="replace") as file:
        reason = file.read()
    if reason:
        raise OSError(f"the init of its PID namespace failed: {reason}")
    return init


def _become_init(instruction: dict[str, Any], report: int) -> None:
    """Become the init of the PID namespace. It ignores SIGCHLD, so the kernel reaps its adopted children."""
    _become_owner(instruction)
    null = os.open("/dev/null", os.O_RDWR)
    for number in range(3):
        # The init must not keep the output pipes open, which Pharos reads to the end.
        os.dup2(null, number)
    os.closerange(3, report)
    os.closerange(report + 1, os.sysconf("SC_OPEN_MAX"))
    _reset_signals()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # By default, Python would raise KeyboardInterrupt for this signal.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.chdir("/")
    reasons = []
    for program, *arguments in instruction["inits"]:
        try:
            os.execve(program, [os.path.basename(program), *arguments], {MARK_VARIABLE: instruction["mark"]})
        except OSError as fault:
            reasons.append(f"{program}: {fault.strerror}")
    raise OSError(f"no init program can be run ({', '.join(reasons)})")


def _probe(instruction: dict[str, Any]) -> None:
    """Print as JSON why this machine offers no namespaces and why it offers no call filter. Each is null if it is
    available."""
    found = {
        "namespaces": _find_namespace_obstacle(instruction, []),
        "filter": _try_in_child(lambda: _try_filter(instruction)),
    }
    os.write(1, json.dumps(found).encode())


def _find_namespace_obstacle(instruction: dict[str, Any], folders: Sequence[str]) -> str | None:
    """Return why no command can be started in namespaces. None if one can."""
    if not can_clone():
        return f"the number of clone on {os.uname().machine} is unknown"
    return _try_in_child(lambda: _try_namespaces(instruction, folders))


def _try_namespaces(instruction: dict[str, Any], folders: Sequence[str]) -> None:
    enter_namespaces(instruction["mark"], folders, None)
    os.kill(_start_init(instruction, os.fork), signal.SIGKILL)


def _try_filter(instruction: dict[str, Any]) -> None:
    drop_privileges(instruction["owner"])
    if not install_call_filter(instruction["filter"]):
        raise OSError(f"the kernel has no seccomp filters, or {os.uname().machine} is unknown")


def _try_in_child(attempt: Callable[[], None]) -> str | None:
    """Run the attempt in a child process, since it cannot be undone. Return its error; None if it succeeded."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            attempt()
        except OSError as fault:
            os.write(writer, str(fault).encode(errors="replace"))
            os._exit(1)
        os._exit(0)
    os.close(writer)
    with open(reader, errors="replace") as file:
        reason = file.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return None if status == 0 else reason or f"the attempt ended with status {status}"


def _die_with_deployer(report: int | None) -> None:
    """Make the kernel kill this process when Pharos ends. Does nothing if `report` is None. A change of user ID resets
    this."""
    set_parent_death_signal(0 if report is None else signal.SIGKILL)
    if report is not None:
        # This write fails if Pharos has ended already, since then nobody reads the report.
        os.write(report, b".")


def _reset_signals() -> None:
    """Restore the default handling of signals: signals that Pharos or Python ignores or blocks would stay so after
    exec."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _build_environment(mark: str, path: str, home: str) -> dict[bytes, bytes]:
    """Return the command's environment. The passed variables override the defaults, but not the mark."""
    usual = {"HOME": home, "TMPDIR": "/tmp", "PATH": path, "LANG": "C.UTF-8"}
    prefix = VARIABLE_PREFIX.encode()
    passed = {
        name.removeprefix(prefix): value for name, value in os.environb.items() if name.startswith(prefix)
    }
    usual_bytes = {os.fsencode(name): os.fsencode(value) for name, value in usual.items()}
    return {**usual_bytes, **passed, MARK_VARIABLE.encode(): mark.encode()}
