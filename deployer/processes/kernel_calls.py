"""Linux system calls for which Python has no functions. All raise OSError. Standard library only."""

from __future__ import annotations

import ctypes
import errno
import os
import signal

# See launcher.py.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# linux/sched.h, linux/mount.h, linux/prctl.h, linux/capability.h.
NEW_MOUNTS, NEW_IPC, NEW_USERS, NEW_PIDS = 0x00020000, 0x08000000, 0x10000000, 0x20000000
_CLONE_PARENT = 0x00008000
_CLONE_CALLS = {"x86_64": 56, "aarch64": 220, "riscv64": 220}
RDONLY, NOSUID, NODEV, NOEXEC = 1, 2, 4, 8
BIND, REC, PRIVATE = 0x1000, 0x4000, 0x40000
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_SET_PDEATHSIG, _SET_NO_NEW_PRIVS, _GET_NO_NEW_PRIVS = 1, 38, 39
_CAP_AMBIENT, _CAP_AMBIENT_CLEAR_ALL = 47, 4
_CAPABILITY_VERSION_3 = 0x20080522
_SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_SPEC_ALLOW = 1, 4


class _Attributes(ctypes.Structure):
    """`struct mount_attr`."""

    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("user_namespace", ctypes.c_uint64),
    )


class _Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


_libc = ctypes.CDLL(None, use_errno=True)
# Keeps Python's lock during a call: a child of `clone` must not have to take it back.
_libc_with_lock = ctypes.PyDLL(None, use_errno=True)


def unshare(kinds: int) -> None:
    """Move into new namespaces; of processes, only the children."""
    _check("unshare", _libc.unshare(kinds))


def can_clone() -> bool:
    """Whether this machine's number of `clone` is known."""
    return os.uname().machine in _CLONE_CALLS


def clone_beside() -> int:
    """As fork, but the child's parent is Pharos."""
    flags = ctypes.c_ulong(_CLONE_PARENT | signal.SIGCHLD)
    child: int = _libc_with_lock.syscall(ctypes.c_long(_CLONE_CALLS[os.uname().machine]), flags, 0, 0, 0, 0)
    _check("clone", child)
    return child


def kill_with_parent(number: int) -> None:
    """Have the kernel send the signal when the parent ends; 0: none."""
    _check("pdeathsig", _libc.prctl(_SET_PDEATHSIG, number, 0, 0, 0))


def drop_rights(owner: list[int] | None) -> None:
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


def filter_calls(given: dict[str, Any] | None) -> bool:
    """Have the kernel refuse calls (see call_filter.py), for good. False: the kernel has no seccomp filters."""
    if given is None:
        return False
    program = bytes.fromhex(given["program"])
    structure = _Program(len(program) // 8, program)
    # Without the flag, kernels before 5.16 slow the process down; those before 4.17 do not know it.
    for flags in (_SECCOMP_FILTER_FLAG_SPEC_ALLOW, 0):
        done = _libc.syscall(
            ctypes.c_long(given["call"]),
            ctypes.c_uint(_SECCOMP_SET_MODE_FILTER),
            ctypes.c_uint(flags),
            ctypes.byref(structure),
        )
        if done == 0:
            return True
        if ctypes.get_errno() not in (errno.ENOSYS, errno.EINVAL):
            _check("seccomp", done)
    return False


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    done = _libc.mount(*texts[:3], ctypes.c_ulong(flags), texts[3])
    _check(f"mount {source} on {target}", done)


def set_attributes(target: str, given: int, cleared: int, *, recursive: bool = False) -> None:
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
