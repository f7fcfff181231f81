"""Confines itself and then becomes the command. Run as a script: `python -I -S launcher.py INSTRUCTION`.

A script of its own, for between fork and exec of a process with threads nothing of this is safe to do in Python.
INSTRUCTION is a JSON object (start_process.py makes it). It holds no secrets, since everybody may read arguments;
variables come in the environment under a prefix: a bare LD_PRELOAD would have its library loaded here, as root.
What fails is one line on standard error and status 125. Standard library only.
"""

import ctypes
import json
import os
import resource
import signal
import sys
from collections.abc import Sequence
from typing import Any

APP_FOLDER = "/srv/app"
HOME_FOLDER = "/srv/home"
MARK_VARIABLE = "PHAROS_INSTANCE"
MOUNT_PREFIX = "pharos:"
VARIABLE_PREFIX = "PHAROS_GIVEN_"
STATUS_NOT_STARTED = 125

_OUT_OF_MEMORY_SCORE = "500"
_TEMPORARY_OPTIONS = "size=512m,mode=1777"
_SHARED_MEMORY_OPTIONS = "size=256m,mode=1777"

# linux/sched.h, linux/mount.h, linux/prctl.h, linux/capability.h.
_NEW_MOUNTS, _NEW_IPC, _NEW_USERS = 0x00020000, 0x08000000, 0x10000000
_RDONLY, _NOSUID, _NODEV, _NOEXEC = 1, 2, 4, 8
_BIND, _REC, _PRIVATE = 0x1000, 0x4000, 0x40000
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_SET_PDEATHSIG, _SET_NO_NEW_PRIVS, _GET_NO_NEW_PRIVS = 1, 38, 39
_CAP_AMBIENT, _CAP_AMBIENT_CLEAR_ALL = 47, 4
_CAPABILITY_VERSION_3 = 0x20080522


class _Attributes(ctypes.Structure):
    """`struct mount_attr`."""

    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("user_namespace", ctypes.c_uint64),
    )


_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Never returns."""
    try:
        instruction = json.loads(sys.argv[1])
        if "probe" in instruction:
            os._exit(0 if _can_enter("probe", []) else 1)
        _run(instruction)
    except (OSError, ValueError, KeyError) as fault:
        reason = " ".join(str(fault).split())
        os.write(2, f"pharos: the command could not be started: {reason}\n".encode(errors="replace"))
    os._exit(STATUS_NOT_STARTED)


def _run(instruction: dict[str, Any]) -> None:
    with open("/proc/self/oom_score_adj", "w") as score:
        score.write(_OUT_OF_MEMORY_SCORE)
    folder, home = folders = instruction["folder"], instruction["home"]
    for path in folders:
        # A missing one is told here, and is not taken for a kernel that refuses.
        os.close(os.open(path, os.O_PATH | os.O_DIRECTORY))
    if _can_enter(instruction["mark"], folders):
        _furnish(_enter(instruction["mark"], folders), instruction["is_writable"], instruction["hidden"])
        folder, home = APP_FOLDER, HOME_FOLDER
    _limit(instruction["limits"])
    _drop_rights(instruction["owner"])
    if instruction["parent"] is not None:
        _die_with(instruction["parent"])
    os.chdir(folder)
    os.umask(0o027)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    _reset_signals()
    variables = _variables(instruction["mark"], instruction["path"], home)
    os.execve("/bin/sh", ["/bin/sh", "-c", instruction["command"]], variables)


def _can_enter(mark: str, folders: Sequence[str]) -> bool:
    """Whether the kernel grants the namespaces. A child tries, since there is no way back out of half of them."""
    child = os.fork()
    if child == 0:
        try:
            _enter(mark, folders)
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _enter(mark: str, folders: Sequence[str]) -> list[int]:
    """Mounts and System V IPC of our own, everything read-only, and /srv empty. Raises OSError.

    Returns descriptors of the folders, which may lie in what is covered here or later, as in /srv or /tmp.

    The name of the mount on /srv is the mark: no process that starts from here gets rid of it by a change of its
    environment, and none without privileges can unmount it. `mount_setattr` came with Linux 5.12.
    """
    uid, gid = os.geteuid(), os.getegid()
    _check("unshare", _libc.unshare(_NEW_MOUNTS | _NEW_IPC | (_NEW_USERS if uid else 0)))
    if uid:
        # To itself: numbers mean the same inside, and no group can be left to get round a file's rights.
        for name, content in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as mapping:
                mapping.write(content)
    _mount("none", "/", None, _REC | _PRIVATE)
    # Not earlier: what is mounted elsewhere must come from these mounts.
    sources = [os.open(path, os.O_PATH | os.O_DIRECTORY) for path in folders]
    _mount(MOUNT_PREFIX + mark, "/srv", "tmpfs", _NOSUID | _NODEV, "size=64k,mode=755")
    os.mkdir(APP_FOLDER)
    os.mkdir(HOME_FOLDER)
    _set_attributes("/", _RDONLY | _NOSUID, 0, recursive=True)
    return sources


def _furnish(sources: Sequence[int], is_writable: bool, hidden: Sequence[str]) -> None:
    """Folder, home and empty places for temporary files; then the cover over what is hidden. Raises OSError."""
    for source, target in zip(sources, (APP_FOLDER, HOME_FOLDER), strict=True):
        _mount(f"/proc/self/fd/{source}", target, None, _BIND | _REC)
        may_write = is_writable or target == HOME_FOLDER
        _set_attributes(target, _NOSUID | _NODEV | (0 if may_write else _RDONLY), _RDONLY if may_write else 0)
    _mount("pharos", "/tmp", "tmpfs", _NOSUID | _NODEV, _TEMPORARY_OPTIONS)
    if os.path.isdir("/var/tmp"):
        _mount("/tmp", "/var/tmp", None, _BIND)
    if os.path.isdir("/dev/shm"):
        _mount("pharos", "/dev/shm", "tmpfs", _NOSUID | _NODEV, _SHARED_MEMORY_OPTIONS)
    for path in hidden:
        _cover(path)
    _furnish_proc()


def _cover(path: str) -> None:
    real = os.path.realpath(path)
    if real in ("/srv", "/tmp", "/var/tmp") or not os.path.exists(real):
        return
    if os.path.isdir(real):
        _mount("pharos", real, "tmpfs", _RDONLY | _NOSUID | _NODEV, "size=64k,mode=755")
    else:
        _mount("/dev/null", real, None, _BIND)


def _furnish_proc() -> None:
    """Without the processes of others, where we may say so (as root); writable, as threads name themselves there."""
    try:
        _mount("proc", "/proc", "proc", _NOSUID | _NODEV | _NOEXEC, "hidepid=2")
    except OSError:
        try:
            _set_attributes("/proc", 0, _RDONLY)
        except OSError:
            return


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


def _drop_rights(owner: list[int] | None) -> None:
    """For good: no way leads back over a set-user-ID file, as no new privileges are given. Raises OSError."""
    if owner is not None:
        uid, gid = owner
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        if os.getresuid() != (uid,) * 3 or os.getresgid() != (gid,) * 3 or os.getgroups():
            raise OSError("the rights of root could not be given up")
    if 0 in (*os.getresuid(), *os.getresgid()):
        raise OSError("a command is not run as root")
    _libc.prctl(_CAP_AMBIENT, _CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    capabilities = (ctypes.c_uint32 * 6)()
    _check("capset", _libc.capset(header, capabilities))
    _check("capget", _libc.capget(header, capabilities))
    _check("no_new_privs", _libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    if any(capabilities) or _libc.prctl(_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1:
        raise OSError("capabilities could not be given up")


def _die_with(parent: int) -> None:
    """Be killed when the parent ends. After the change of user, which takes the wish back."""
    _check("pdeathsig", _libc.prctl(_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0))
    if os.getppid() != parent:
        raise OSError("Pharos has ended")


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


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    done = _libc.mount(*texts[:3], ctypes.c_ulong(flags), texts[3])
    _check(f"mount {source} on {target}", done)


def _set_attributes(target: str, given: int, cleared: int, *, recursive: bool = False) -> None:
    attributes = _Attributes(given, cleared, 0, 0)
    flags = ctypes.c_uint(_AT_RECURSIVE if recursive else 0)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    done = _libc.syscall(
        ctypes.c_long(_MOUNT_SETATTR), _AT_FDCWD, os.fsencode(target), flags, ctypes.byref(attributes), size
    )
    _check(f"mount_setattr {target}", done)


def _check(what: str, result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


if __name__ == "__main__":
    main()
