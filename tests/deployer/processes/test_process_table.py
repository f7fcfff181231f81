"""The marks of processes, as /proc tells them."""

import io
import os
import signal
import subprocess
from pathlib import Path

import pytest

from deployer.processes import process_table
from deployer.processes.launcher import MARK_VARIABLE
from deployer.processes.process_table import Marks


class _Changing:
    """/proc, in which we become another program for so many looks, and then have this environment."""

    def __init__(self, looks: int, environment: bytes) -> None:
        self.looks = looks
        self.environment = environment
        self.asked = 0

    def open(self, path: str, mode: str) -> io.BytesIO:
        kind = path.rpartition("/")[2]
        if kind == "environ":
            self.asked += 1
            self.looks -= 1
            return io.BytesIO(b"" if self.looks >= 0 else self.environment)
        data = Path(path).read_bytes()
        if kind == "stat" and self.looks > 0:
            head, bracket, fields = data.rpartition(b")")
            numbers = fields.split()
            # As the kernel tells it before the new program's environment is in its place.
            numbers[45:49] = [b"0"] * 4
            data = head + bracket + b" " + b" ".join(numbers) + b"\n"
        return io.BytesIO(data)


def _look(monkeypatch: pytest.MonkeyPatch, proc: _Changing) -> frozenset[str]:
    monkeypatch.setattr(process_table, "open", proc.open, raising=False)
    return Marks().read(os.getpid())


def test_a_process_that_takes_long_to_become_another_program_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on a busy machine, where it is kept waiting in the middle of that."""
    proc = _Changing(30, f"A=b\0{MARK_VARIABLE}=late\0".encode())
    assert "late" in _look(monkeypatch, proc)
    assert proc.asked == 31


def test_a_process_without_an_environment_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """An application may have thousands of such processes, and every scan would wait for each of them."""
    monkeypatch.setattr(process_table.time, "sleep", pytest.fail)
    proc = _Changing(0, b"")
    assert _look(monkeypatch, proc) == frozenset()
    assert proc.asked == 2


def test_of_a_process_that_has_just_been_started_the_environment_is_known() -> None:
    """Its starter goes on before the new program has one."""
    for number in range(50):
        process = subprocess.Popen(["/bin/sleep", "60"], env={MARK_VARIABLE: f"just:{number}"})
        try:
            assert f"just:{number}" in Marks().read(process.pid)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
