"""Linux system calls that Python lacks. All functions raise OSError. Standard library only."""

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
    """The kernel's `struct mount_attr`."""

    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("user_namespace", ctypes.c_uint64),
    )


class _Program(ctypes.Structure):
    """The kernel's `struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


_libc = ctypes.CDLL(None, use_errno=True)
# Keeps the interpreter lock during a call: a child of `clone` could not reacquire it.
_libc_with_lock = ctypes.PyDLL(None, use_errno=True)


def unshare(kinds: int) -> None:
    """Move this process into new namespaces; a new PID namespace applies only to its children."""
    _check("unshare", _libc.unshare(kinds))


def can_clone() -> bool:
    """Return True if the number of `clone` on this machine is known."""
    return os.uname().machine in _CLONE_CALLS


def clone_sibling() -> int:
    """Fork this process. The child gets the same parent as this process, which is Pharos."""
    flags = ctypes.c_ulong(_CLONE_PARENT | signal.SIGCHLD)
    child: int = _libc_with_lock.syscall(ctypes.c_long(_CLONE_CALLS[os.uname().machine]), flags, 0, 0, 0, 0)
    _check("clone", child)
    return child


def set_parent_death_signal(number: int) -> None:
    """Make the kernel send this signal to this process when its parent ends. 0: send no signal."""
    _check("pdeathsig", _libc.prctl(_SET_PDEATHSIG, number, 0, 0, 0))


def drop_privileges(owner: list[int] | None) -> None:
    """Become the owner and drop all privileges for good: set-user-ID files give none back. Raises OSError."""
    if owner is not None:
        uid, gid = owner
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        if os.getresuid() != (uid,) * 3 or os.getresgid() != (gid,) * 3 or os.getgroups():
            raise OSError("root privileges could not be dropped")
    if 0 in (*os.getresuid(), *os.getresgid()):
        raise OSError("a command must not run as root")
    _libc.prctl(_CAP_AMBIENT, _CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    capabilities = (ctypes.c_uint32 * 6)()
    _check("capset", _libc.capset(header, capabilities))
    _check("capget", _libc.capget(header, capabilities))
    _check("no_new_privs", _libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    if any(capabilities) or _libc.prctl(_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1:
        raise OSError("capabilities could not be dropped")


def install_call_filter(specification: dict[str, Any] | None) -> bool:
    """Make the kernel refuse system calls for good (see call_filter.py). Return False if the kernel has no seccomp
    filters."""
    if specification is None:
        return False
    program = bytes.fromhex(specification["program"])
    structure = _Program(len(program) // 8, program)
    # Without this flag, kernels before 5.16 slow down the process. Kernels before 4.17 do not know the flag.
    for flags in (_SECCOMP_FILTER_FLAG_SPEC_ALLOW, 0):
        result = _libc.syscall(
            ctypes.c_long(specification["call"]),
            ctypes.c_uint(_SECCOMP_SET_MODE_FILTER),
            ctypes.c_uint(flags),
            ctypes.byref(structure),
        )
        if result == 0:
            return True
        if ctypes.get_errno() not in (errno.ENOSYS, errno.EINVAL):
            _check("seccomp", result)
    return False


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    result = _libc.mount(*texts[:3], ctypes.c_ulong(flags), texts[3])
    _check(f"mount {source} on {target}", result)


def set_mount_attributes(target: str, specification: int, cleared: int, *, recursive: bool = False) -> None:
    attributes = _Attributes(specification, cleared, 0, 0)
    flags = ctypes.c_uint(_AT_RECURSIVE if recursive else 0)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    result = _libc.syscall(
        ctypes.c_long(_MOUNT_SETATTR), _AT_FDCWD, os.fsencode(target), flags, ctypes.byref(attributes), size
    )
    _check(f"mount_setattr {target}", result)


def _check(call: str, result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), call)
