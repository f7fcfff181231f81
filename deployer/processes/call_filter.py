"""Builds the seccomp filter for commands: the kernel refuses system calls with which code could hide from Pharos.

With new namespaces or mounts, a command could leave the mount that carries its mark, and the PID namespace whose end
kills it. The other refused calls reach kernel state that is not separated by namespaces (keys, BPF, traces), and no
ordinary program needs them. `clone3` takes its flags through a pointer, which a filter cannot read: the filter reports
the call as missing, and the C library uses `clone`.
"""

import errno
import os
import struct
from dataclasses import dataclass
from typing import Any

# linux/sched.h: mount, cgroup, UTS, IPC, user, PID and network namespaces. `clone` has no bit for the time namespace:
# that bit belongs to the exit signal there.
_NEW_NAMESPACES = 0x7E020000
_NEW_TIME = 0x80


@dataclass(frozen=True, slots=True)
class _Machine:
    audit_arch: int
    seccomp: int
    clone: int
    unshare: int
    refused: frozenset[int]
    own_abi_below: int | None = None
    """Numbers from here on belong to another ABI (x32) with its own numbers for the same calls."""


# From asm/unistd_64.h and asm-generic/unistd.h; from 424 on all machines have the same numbers: open_tree, move_mount,
# fsopen, fsconfig, fsmount, fspick, io_uring_setup, io_uring_enter, io_uring_register, mount_setattr, open_tree_attr.
_REFUSED_EVERYWHERE = frozenset({428, 429, 430, 431, 432, 433, 425, 426, 427, 442, 467})
_CLONE3 = 435
_MACHINES = {
    "x86_64": _Machine(
        0xC000003E,
        317,
        56,
        272,
        # setns, mount, umount2, pivot_root, add_key, request_key, keyctl, bpf, userfaultfd, perf_event_open
        _REFUSED_EVERYWHERE | {308, 165, 166, 155, 248, 249, 250, 321, 323, 298},
        0x40000000,
    ),
    "aarch64": _Machine(
        0xC00000B7,
        277,
        220,
        97,
        _REFUSED_EVERYWHERE | {268, 40, 39, 41, 217, 218, 219, 280, 282, 241},
    ),
}

# linux/bpf_common.h, linux/seccomp.h: load a word of the call's data, compare, return.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCH_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_ALLOW, _FAIL_WITH = 0x7FFF0000, 0x00050000
_INSTRUCTION = struct.Struct("=HBBI")


def build_call_filter(machine: str | None = None) -> dict[str, Any] | None:
    """Return the number of the `seccomp` call, and the filter program in hexadecimal; None for an unknown machine."""
    known = _MACHINES.get(machine or os.uname().machine)
    if known is None:
        return None
    return {"call": known.seccomp, "program": _program(known).hex()}


def _program(machine: _Machine) -> bytes:
    instructions = [
        _step(_LOAD, _ARCH_AT),
        # A 32-bit program has other numbers for the same calls, so report all of its calls as missing.
        *_unless(_EQUAL, machine.audit_arch, errno.ENOSYS),
        _step(_LOAD, _NUMBER_AT),
    ]
    if machine.own_abi_below is not None:
        instructions += _if(_AT_LEAST, machine.own_abi_below, errno.ENOSYS)
    instructions += _if(_EQUAL, _CLONE3, errno.ENOSYS)
    for number in sorted(machine.refused):
        instructions += _if(_EQUAL, number, errno.EPERM)
    for number, flags in ((machine.clone, _NEW_NAMESPACES), (machine.unshare, _NEW_NAMESPACES | _NEW_TIME)):
        # For any other call, skip the check of the flags. Loading the flags overwrites the loaded call number.
        instructions += [
            _step(_EQUAL, number, 0, 4),
            _step(_LOAD, _FIRST_ARGUMENT_AT),
            *_if(_ANY_BIT, flags, errno.EPERM),
            _step(_RETURN, _ALLOW),
        ]
    return b"".join([*instructions, _step(_RETURN, _ALLOW)])


def _if(test: int, value: int, error: int) -> list[bytes]:
    return [_step(test, value, 0, 1), _step(_RETURN, _FAIL_WITH | error)]


def _unless(test: int, value: int, error: int) -> list[bytes]:
    return [_step(test, value, 1, 0), _step(_RETURN, _FAIL_WITH | error)]


def _step(code: int, value: int, skipped_if: int = 0, skipped_else: int = 0) -> bytes:
    return _INSTRUCTION.pack(code, skipped_if, skipped_else, value)
