"""The kernel refuses dangerous system calls of commands, and allows those of ordinary programs."""

import errno
import json
import os
import struct

import pytest

from deployer.processes.call_filter import build_call_filter
from tests.deployer.processes.sandbox import PYTHON, Sandbox

_NUMBERS = {
    "x86_64": {"unshare": 272, "setns": 308, "mount": 165, "umount2": 166, "pivot_root": 155, "clone": 56,
               "keyctl": 250, "bpf": 321, "userfaultfd": 323, "add_key": 248, "perf_event_open": 298},
    "aarch64": {"unshare": 97, "setns": 268, "mount": 40, "umount2": 39, "pivot_root": 41, "clone": 220, "keyctl": 219,
                "bpf": 280, "userfaultfd": 282, "add_key": 217, "perf_event_open": 241},
}  # fmt: skip
_ON_ALL_MACHINES = {"clone3": 435, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432,
               "fspick": 433, "mount_setattr": 442, "io_uring_setup": 425}  # fmt: skip
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_ALLOW = 0x7FFF0000


def _run_filter(machine: str, number: int, first_argument: int = 0, arch: int | None = None) -> int:
    """Interpret the filter's instructions for a call; return the error, 0 if the call is allowed."""
    specification = build_call_filter(machine)
    assert specification is not None
    program = [
        struct.unpack("=HBBI", part) for part in _split_instructions(bytes.fromhex(specification["program"]))
    ]
    data = struct.pack(
        "=IIQQQQQQQ", number, arch or _ARCHITECTURES[machine], 0, first_argument, 0, 0, 0, 0, 0
    )
    at = register = 0
    while True:
        code, skipped_if, skipped_else, value = program[at]
        at += 1
        if code == 0x20:
            (register,) = struct.unpack_from("=I", data, value)
        elif code == 0x06:
            return 0 if value == _ALLOW else value & 0xFFFF
        else:
            holds = {0x15: register == value, 0x35: register >= value, 0x45: bool(register & value)}[code]
            at += skipped_if if holds else skipped_else


def _split_instructions(program: bytes) -> list[bytes]:
    return [program[at : at + 8] for at in range(0, len(program), 8)]


@pytest.mark.parametrize("machine", list(_NUMBERS))
def test_the_filter_refuses_exactly_the_listed_calls(machine: str) -> None:
    numbers = _NUMBERS[machine] | _ON_ALL_MACHINES
    flagged = {"clone", "unshare"}
    for name, number in numbers.items():
        if name not in flagged:
            assert _run_filter(machine, number) == (errno.ENOSYS if name == "clone3" else errno.EPERM), name
    namespaces = [1 << bit for bit in (17, 25, 26, 27, 28, 29, 30)]
    for name in flagged:
        for flag in namespaces:
            assert _run_filter(machine, numbers[name], flag | 17) == errno.EPERM, (name, hex(flag))
            # The flags are the lower half of a register.
            assert _run_filter(machine, numbers[name], flag | 1 << 40) == errno.EPERM
    # A thread, fork and vfork; then unshare of files and the working directory.
    for flags in (0x3D0F00, 17, 0x4111):
        assert _run_filter(machine, numbers["clone"], flags) == 0
    assert _run_filter(machine, numbers["unshare"], 0x600) == 0
    assert _run_filter(machine, numbers["unshare"], 0x80) == errno.EPERM
    refused = {number for number in range(600) if _run_filter(machine, number) != 0}
    assert refused == set(_REFUSED[machine])


_REFUSED = {
    "x86_64": [155, 165, 166, 248, 249, 250, 298, 308, 321, 323, *range(425, 434), 435, 442, 467],
    "aarch64": [39, 40, 41, 217, 218, 219, 241, 268, 280, 282, *range(425, 434), 435, 442, 467],
}


def test_calls_of_another_abi_are_reported_as_missing() -> None:
    assert _run_filter("x86_64", 39, arch=0x40000003) == errno.ENOSYS
    assert _run_filter("x86_64", 0x40000000 | 272) == errno.ENOSYS
    assert _run_filter("aarch64", 20, arch=0x40000028) == errno.ENOSYS
    assert build_call_filter("s390x") is None


_TRY_CALLS = f"""exec {PYTHON} -c '
import ctypes, json, sys, threading, subprocess
libc = ctypes.CDLL(None, use_errno=True)
told = {{}}
for name, number in json.loads(sys.argv[1]).items():
    flags = 0x10000000 if name == "unshare" else 0x10000011
    told[name] = ctypes.get_errno() if libc.syscall(number, flags, 0, 0, 0, 0) < 0 else 0
thread = threading.Thread(target=lambda: told.update(thread="ran"))
thread.start(); thread.join()
told["program"] = subprocess.run(["/bin/echo", "ran"], capture_output=True, text=True).stdout.strip()
print(json.dumps(told))
' """


async def test_the_kernel_applies_the_filter_and_programs_run(sandbox: Sandbox) -> None:
    machine = os.uname().machine
    if machine not in _NUMBERS:
        pytest.skip("no filter for this machine")
    numbers = _NUMBERS[machine] | _ON_ALL_MACHINES
    results = json.loads(await sandbox.run(f"{_TRY_CALLS} '{json.dumps(numbers)}'"))
    assert (results.pop("thread"), results.pop("program")) == ("ran", "ran")
    assert results == {name: errno.ENOSYS if name == "clone3" else errno.EPERM for name in numbers}
    assert "Seccomp:\t2" in await sandbox.run("cat /proc/self/status")
