"""Starts the command, confined. `main` runs in an interpreter of its own, which start_process.py starts.

Between fork and exec of a process with threads nothing of this is safe to do in Python. The interpreter imports this
module, as Python keeps the compiled form of imported modules alone; its argument is INSTRUCTION.
INSTRUCTION is a JSON object (start_process.py makes it). It holds no secrets, since everybody may read arguments;
variables come in the environment under a prefix: a bare LD_PRELOAD would have its library loaded here, as root.
What fails is one line on standard error and status 125. Standard library only.

Where the kernel grants namespaces, the launcher starts two processes in a new PID namespace, both children of Pharos
(CLONE_PARENT), reports their pids and ends: an init, which only waits, and the command. When the init is killed, the
kernel kills all that the command has started, however it hides. Elsewhere the launcher becomes the command itself.
"""

from __future__ import annotations

import grp
import json
import os
import pwd
import resource
import signal
import sys

from deployer.processes.kernel_calls import (
    BIND,
    NEW_IPC,
    NEW_MOUNTS,
    NEW_PIDS,
    NEW_USERS,
    NODEV,
    NOEXEC,
    NOSUID,
    PRIVATE,
    RDONLY,
    REC,
    can_clone,
    clone_beside,
    drop_rights,
    filter_calls,
    kill_with_parent,
    mount,
    set_attributes,
    unshare,
)
from deployer.processes.run_folder import cover_disks, cover_run_folders
from deployer.processes.terminals import furnish_terminals
from deployer.processes.user_count import processes_allowed

# Not imported where it runs: both take as long as the confinement.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

APP_FOLDER = "/srv/app"
HOME_FOLDER = "/srv/home"
MARK_VARIABLE = "PHAROS_INSTANCE"
USER_NAME = "app"
MOUNT_PREFIX = "pharos:"
VARIABLE_PREFIX = "PHAROS_GIVEN_"
STATUS_NOT_STARTED = 125

_OUT_OF_MEMORY_SCORE = "500"
_TEMPORARY_OPTIONS = "size=512m,mode=1777"
_SHARED_MEMORY_OPTIONS = "size=256m,mode=1777"


def main() -> None:
    """Never returns."""
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
    # A start that is not finished is called off when Pharos ends: its successor finds no half of one.
    _die_with_pharos(instruction["report"])
    with open("/proc/self/oom_score_adj", "w") as score:
        score.write(_OUT_OF_MEMORY_SCORE)
    folder, home = folders = instruction["folder"], instruction["home"]
    for path in folders:
        # A missing one is told here, and is not taken for a kernel that refuses.
        os.close(os.open(path, os.O_PATH | os.O_DIRECTORY))
    limits = _wanted_limits(instruction)
    # Where Pharos has had namespaces before, a refusal is a failure: nothing runs less confined for a full table.
    if instruction["has_namespaces"] or not _why_no_namespaces(instruction, folders):
        sources = _enter(instruction["mark"], folders, instruction["owner"])
        _split(instruction)
        if instruction["owner"] is None:
            cover_run_folders()
            cover_disks()
        _furnish(sources, instruction["is_writable"], instruction["hidden"])
        folder, home = APP_FOLDER, HOME_FOLDER
    else:
        os.write(instruction["report"], b"stays\n")
    _limit(limits)
    _become_owner(instruction)
    os.chdir(folder)
    os.umask(0o027)
    # Closed by the start of the command alone, which is how Pharos knows of it.
    os.set_inheritable(instruction["report"], False)
    os.closerange(3, instruction["report"])
    os.closerange(instruction["report"] + 1, os.sysconf("SC_OPEN_MAX"))
    _reset_signals()
    variables = _variables(instruction["mark"], instruction["path"], home)
    os.execve("/bin/sh", ["/bin/sh", "-c", instruction["command"]], variables)


def _become_owner(instruction: dict[str, Any]) -> None:
    drop_rights(instruction["owner"])
    _die_with_pharos(instruction["report"] if instruction["dies_with_pharos"] else None)
    filter_calls(instruction["filter"])


def _split(instruction: dict[str, Any]) -> None:
    """Return in the command's process, which leads a session of its own; the launcher and the init never return."""
    init = _start_init(instruction, clone_beside)
    reader, writer = os.pipe()
    command = clone_beside()
    if command == 0:
        os.close(writer)
        # Until then Pharos finds this process in the launcher's group, should the launcher be killed.
        if os.read(reader, 1) != b"g":
            os._exit(STATUS_NOT_STARTED)
        os.close(reader)
        os.setsid()
        return
    os.write(instruction["report"], f"{init} {command}\n".encode())
    os.write(writer, b"g")
    os._exit(0)


def _start_init(instruction: dict[str, Any], fork: Callable[[], int]) -> int:
    """Start the init of the PID namespace; return its pid once it runs. Raises OSError, with what it failed at."""
    reader, writer = os.pipe()
    init = fork()
    if init == 0:
        try:
            _become_init(instruction, writer)
        except OSError as fault:
            os.write(writer, str(fault).encode(errors="replace"))
        os._exit(STATUS_NOT_STARTED)
    os.close(writer)
    # Its end of the pipe is closed by the start of its program.
    with open(reader, errors="replace") as file:
        reason = file.read()
    if reason:
        raise OSError(f"the init of its PID namespace failed: {reason}")
    return init


def _become_init(instruction: dict[str, Any], report: int) -> None:
    """Become the init of the PID namespace: with SIGCHLD ignored the kernel reaps whatever is left to it."""
    _become_owner(instruction)
    nothing = os.open("/dev/null", os.O_RDWR)
    for number in range(3):
        # It must not hold the pipes from which Pharos reads to their ends.
        os.dup2(nothing, number)
    os.closerange(3, report)
    os.closerange(report + 1, os.sysconf("SC_OPEN_MAX"))
    _reset_signals()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # Python would take it for Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.chdir("/")
    reasons = []
    for program, *arguments in instruction["inits"]:
        try:
            os.execve(program, [os.path.basename(program), *arguments], {MARK_VARIABLE: instruction["mark"]})
        except OSError as fault:
            reasons.append(f"{program}: {fault.strerror}")
    raise OSError(f"no program that waits can be run ({', '.join(reasons)})")


def _probe(instruction: dict[str, Any]) -> None:
    """Report on standard output, as JSON, why there are no namespaces and no filter here; null: there are."""
    found = {
        "namespaces": _why_no_namespaces(instruction, []),
        "filter": _why_refused(lambda: _try_filter(instruction)),
    }
    os.write(1, json.dumps(found).encode())


def _why_no_namespaces(instruction: dict[str, Any], folders: Sequence[str]) -> str | None:
    """The reason why no command can be started in namespaces; None: it can."""
    if not can_clone():
        return f"the number of clone on {os.uname().machine} is not known"
    return _why_refused(lambda: _try_namespaces(instruction, folders))


def _try_namespaces(instruction: dict[str, Any], folders: Sequence[str]) -> None:
    _enter(instruction["mark"], folders, None)
    os.kill(_start_init(instruction, os.fork), signal.SIGKILL)


def _try_filter(instruction: dict[str, Any]) -> None:
    drop_rights(instruction["owner"])
    if not filter_calls(instruction["filter"]):
        raise OSError(f"the kernel has no seccomp filters, or {os.uname().machine} is not known")


def _why_refused(attempt: Callable[[], None]) -> str | None:
    """The error of the attempt; None: it went well. A child tries, since there is no way back out of half of it."""
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


def _enter(mark: str, folders: Sequence[str], owner: list[int] | None) -> list[int]:
    """Mounts and System V IPC of our own, everything read-only, and /srv empty; children get a PID namespace.

    Returns descriptors of the folders, which may lie in what is covered here or later, as in /srv or /tmp. Raises
    OSError.

    The name of the mount on /srv is the mark: no process that starts from here gets rid of it by a change of its
    environment, and none without privileges can unmount it. `mount_setattr` came with Linux 5.12.
    """
    uid, gid = os.geteuid(), os.getegid()
    kinds = NEW_MOUNTS | NEW_IPC | NEW_PIDS | (NEW_USERS if uid else 0)
    unshare(kinds)
    if uid:
        # To itself: numbers mean the same inside, and no group can be left to get round a file's rights.
        for name, content in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as mapping:
                mapping.write(content)
    mount("none", "/", None, REC | PRIVATE)
    # Not earlier: what is mounted elsewhere must come from these mounts.
    sources = [os.open(path, os.O_PATH | os.O_DIRECTORY) for path in folders]
    mount(MOUNT_PREFIX + mark, "/srv", "tmpfs", NOSUID | NODEV, "size=1m,mode=755")
    _name_user(owner)
    os.mkdir(APP_FOLDER)
    os.mkdir(HOME_FOLDER)
    set_attributes("/", RDONLY | NOSUID, 0, recursive=True)
    return sources


def _name_user(owner: list[int] | None) -> None:
    """Give the user a name and the home that it has here, without which ssh refuses to run, or reads another home.

    Where Pharos is not root, names that there are stay: Postgres' peer authentication, for one, goes by the user's.
    """
    uid, gid = owner or (os.geteuid(), os.getegid())
    if owner is not None or not _is_named(pwd.getpwuid, uid):
        _add_line("/etc/passwd", uid, f"{USER_NAME}:x:{uid}:{gid}::{HOME_FOLDER}:/bin/sh")
    if owner is not None or not _is_named(grp.getgrgid, gid):
        _add_line("/etc/group", gid, f"{USER_NAME}:x:{gid}:")


def _is_named(look_up: Callable[[int], object], number: int) -> bool:
    try:
        look_up(number)
    except KeyError:
        return False
    return True


def _add_line(path: str, number: int, line: str) -> None:
    """Show the file with this line in place of those of the number."""
    if not os.path.isfile(path):
        return
    with open(path, "rb") as file:
        others = [each for each in file.read().splitlines() if each.split(b":")[2:3] != [b"%d" % number]]
    made = f"/srv/{number}"
    with open(made, "wb") as file:
        file.write(b"\n".join([line.encode(), *others, b""]))
        os.fchmod(file.fileno(), 0o644)
    mount(made, path, None, BIND)
    os.unlink(made)


def _furnish(sources: Sequence[int], is_writable: bool, hidden: Sequence[str]) -> None:
    """Folder, home and empty places for temporary files; then the cover over what is hidden. Raises OSError."""
    for source, target in zip(sources, (APP_FOLDER, HOME_FOLDER), strict=True):
        mount(f"/proc/self/fd/{source}", target, None, BIND | REC)
        may_write = is_writable or target == HOME_FOLDER
        set_attributes(target, NOSUID | NODEV | (0 if may_write else RDONLY), RDONLY if may_write else 0)
    mount("pharos", "/tmp", "tmpfs", NOSUID | NODEV, _TEMPORARY_OPTIONS)
    if os.path.isdir("/var/tmp"):
        mount("/tmp", "/var/tmp", None, BIND)
    if os.path.isdir("/dev/shm"):
        mount("pharos", "/dev/shm", "tmpfs", NOSUID | NODEV, _SHARED_MEMORY_OPTIONS)
    furnish_terminals()
    for path in hidden:
        _cover(path)
    _furnish_proc()


def _cover(path: str) -> None:
    real = os.path.realpath(path)
    if real in ("/srv", "/tmp", "/var/tmp") or not os.path.exists(real):
        return
    if os.path.isdir(real):
        mount("pharos", real, "tmpfs", RDONLY | NOSUID | NODEV, "size=64k,mode=755")
    else:
        mount("/dev/null", real, None, BIND)


def _furnish_proc() -> None:
    """That of the PID namespace, where the kernel allows the mount; writable, as threads name themselves there."""
    for options in ("hidepid=2", ""):
        try:
            mount("proc", "/proc", "proc", NOSUID | NODEV | NOEXEC, options)
        except OSError:
            continue
        return
    try:
        set_attributes("/proc", 0, RDONLY)
    except OSError:
        return


def _wanted_limits(instruction: dict[str, Any]) -> dict[str, int]:
    """Those of the instruction; the processes of a user of the command's own beside those that run already."""
    limits: dict[str, int] = instruction["limits"]
    if instruction["owner"] is None:
        return limits
    own = limits["processes"]
    # Not yet the /proc of the new PID namespace, and before the init counts.
    wanted = processes_allowed(instruction["owner"][0], own)
    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    # A root without CAP_SYS_RESOURCE cannot raise it.
    return {**limits, "processes": wanted if most == resource.RLIM_INFINITY else max(own, min(wanted, most))}


def _limit(limits: dict[str, int]) -> None:
    """Lowered to what we are allowed ourselves where that is less."""
    wanted = {
        resource.RLIMIT_NPROC: limits["processes"],
        resource.RLIMIT_NOFILE: limits["open_files"],
        resource.RLIMIT_DATA: limits["memory_bytes"],
        resource.RLIMIT_FSIZE: limits["file_bytes"],
        resource.RLIMIT_CORE: 0,
    }
    for kind, value in wanted.items():
        most = resource.getrlimit(kind)[1]
        if most != resource.RLIM_INFINITY and os.geteuid():
            value = min(value, most)
        resource.setrlimit(kind, (value, value))


def _die_with_pharos(report: int | None) -> None:
    """Be killed when Pharos ends; with None no longer. A change of user takes the setting back."""
    kill_with_parent(0 if report is None else signal.SIGKILL)
    if report is not None:
        # Fails where it has ended already: nobody reads the report.
        os.write(report, b".")


def _reset_signals() -> None:
    """What Pharos or Python ignores or blocks would stay so beyond exec."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _variables(mark: str, path: str, home: str) -> dict[bytes, bytes]:
    """The command's environment, in which those that were given win, but for the mark."""
    usual = {"HOME": home, "TMPDIR": "/tmp", "PATH": path, "LANG": "C.UTF-8"}
    prefix = VARIABLE_PREFIX.encode()
    given = {
        name.removeprefix(prefix): value for name, value in os.environb.items() if name.startswith(prefix)
    }
    mine = {os.fsencode(name): os.fsencode(value) for name, value in usual.items()}
    return {**mine, **given, MARK_VARIABLE.encode(): mark.encode()}
