"""Builds the view of the system that a command gets: its namespaces, folders, user name, terminals and /proc. Standard
library only."""

from __future__ import annotations

import grp
import os
import pwd

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
    mount,
    set_mount_attributes,
    unshare,
)

# See launcher.py.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

APP_FOLDER = "/srv/app"
HOME_FOLDER = "/srv/home"
USER_NAME = "app"
MOUNT_PREFIX = "pharos:"

_TEMPORARY_OPTIONS = "size=512m,mode=1777"
_SHARED_MEMORY_OPTIONS = "size=256m,mode=1777"
_TERMINAL_FOLDER = "/dev/pts"
_TERMINAL_OPENER = "/dev/ptmx"
_TERMINAL_OPTIONS = "newinstance,ptmxmode=0666,mode=620,max=256"


def enter_namespaces(mark: str, folders: Sequence[str], owner: list[int] | None) -> list[int]:
    """Enter new mount and IPC namespaces with everything read-only and an empty /srv, and create a PID namespace for
    children.

    Return descriptors of the folders, which may be below a later mount, such as /srv or /tmp. Raises OSError.

    The name of the mount on /srv is the mark: processes cannot remove it by changing their environment, nor unmount it
    without privileges. `mount_setattr` needs Linux 5.12.
    """
    uid, gid = os.geteuid(), os.getegid()
    kinds = NEW_MOUNTS | NEW_IPC | NEW_PIDS | (NEW_USERS if uid else 0)
    unshare(kinds)
    if uid:
        # Map the user to itself, so that ids mean the same inside. Denying setgroups prevents a process from dropping a
        # group to bypass file permissions.
        for name, content in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as mapping:
                mapping.write(content)
    mount("none", "/", None, REC | PRIVATE)
    # Do not open these earlier: bind mounts need descriptors from the new namespace.
    sources = [os.open(path, os.O_PATH | os.O_DIRECTORY) for path in folders]
    mount(MOUNT_PREFIX + mark, "/srv", "tmpfs", NOSUID | NODEV, "size=1m,mode=755")
    _name_user(owner)
    os.mkdir(APP_FOLDER)
    os.mkdir(HOME_FOLDER)
    set_mount_attributes("/", RDONLY | NOSUID, 0, recursive=True)
    return sources


def _name_user(owner: list[int] | None) -> None:
    """Give the user a name and the home that it sees here: without them, ssh refuses to run, or reads another home.

    If Pharos is not root, existing names stay, since Postgres' peer authentication, for one, uses them.
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
    """Mount a copy of the file in which `line` replaces all lines for this user or group ID."""
    if not os.path.isfile(path):
        return
    with open(path, "rb") as file:
        others = [each for each in file.read().splitlines() if each.split(b":")[2:3] != [b"%d" % number]]
    temporary = f"/srv/{number}"
    with open(temporary, "wb") as file:
        file.write(b"\n".join([line.encode(), *others, b""]))
        os.fchmod(file.fileno(), 0o644)
    mount(temporary, path, None, BIND)
    os.unlink(temporary)


def mount_folders(sources: Sequence[int], is_writable: bool, hidden: Sequence[str]) -> None:
    """Mount the command's folder, home and temporary folders, and hide paths. Raises OSError."""
    for source, target in zip(sources, (APP_FOLDER, HOME_FOLDER), strict=True):
        mount(f"/proc/self/fd/{source}", target, None, BIND | REC)
        may_write = is_writable or target == HOME_FOLDER
        set_mount_attributes(
            target, NOSUID | NODEV | (0 if may_write else RDONLY), RDONLY if may_write else 0
        )
    mount("pharos", "/tmp", "tmpfs", NOSUID | NODEV, _TEMPORARY_OPTIONS)
    if os.path.isdir("/var/tmp"):
        mount("/tmp", "/var/tmp", None, BIND)
    if os.path.isdir("/dev/shm"):
        mount("pharos", "/dev/shm", "tmpfs", NOSUID | NODEV, _SHARED_MEMORY_OPTIONS)
    _mount_terminals()
    for path in hidden:
        _hide(path)
    _mount_proc()


def _hide(path: str) -> None:
    real = os.path.realpath(path)
    if real in ("/srv", "/tmp", "/var/tmp") or not os.path.exists(real):
        return
    if os.path.isdir(real):
        mount("pharos", real, "tmpfs", RDONLY | NOSUID | NODEV, "size=64k,mode=755")
    else:
        mount("/dev/null", real, None, BIND)


def _mount_proc() -> None:
    """Mount the /proc of the PID namespace if the kernel allows it. It is writable, since threads set their names
    there."""
    for options in ("hidepid=2", ""):
        try:
            mount("proc", "/proc", "proc", NOSUID | NODEV | NOEXEC, options)
        except OSError:
            continue
        return
    try:
        set_mount_attributes("/proc", 0, RDONLY)
    except OSError:
        return


def _mount_terminals() -> None:
    """Mount new pseudo-terminals on /dev/pts, at most 256; if the kernel refuses, the command keeps the terminals of
    the machine.

    The machine has 4,096, and two processes that may open 4,096 files each could use up all of them.
    """
    if not os.path.isdir(_TERMINAL_FOLDER):
        return
    for options in (_TERMINAL_OPTIONS + _terminal_group_option(), _TERMINAL_OPTIONS):
        try:
            mount("pharos", _TERMINAL_FOLDER, "devpts", NOSUID | NOEXEC, options)
        except OSError:
            continue
        break
    else:
        return
    try:
        # For machines where /dev/ptmx is not a link, with kernels too old to use the ptmx next to it.
        mount(f"{_TERMINAL_FOLDER}/ptmx", _TERMINAL_OPENER, None, BIND)
    except OSError:
        return


def _terminal_group_option() -> str:
    """Return the mount option for the group `tty`, which glibc before 2.33 requires; user namespaces refuse the
    option."""
    try:
        return f",gid={grp.getgrnam('tty').gr_gid}"
    except KeyError:
        return ""
