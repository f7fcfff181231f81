"""The marks of processes are read from /proc."""

import io
import os
import signal
import subprocess
from pathlib import Path

import pytest

from deployer.processes import process_table
from deployer.processes.launcher import MARK_VARIABLE
from deployer.processes.process_table import Marks


class _ExecutingProc:
    """A /proc in which this process executes a new program for some reads, and then has the environment."""

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
            # The kernel reports zeros before the new program's environment is in place.
            numbers[45:49] = [b"0"] * 4
            data = head + bracket + b" " + b" ".join(numbers) + b"\n"
        return io.BytesIO(data)


def _read_marks(monkeypatch: pytest.MonkeyPatch, proc: _ExecutingProc) -> frozenset[str]:
    monkeypatch.setattr(process_table, "open", proc.open, raising=False)
    return Marks().read(os.getpid())


def test_the_mark_of_a_slowly_executing_process_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a busy machine, the execution of a program may take long."""
    proc = _ExecutingProc(30, f"A=b\0{MARK_VARIABLE}=late\0".encode())
    assert "late" in _read_marks(monkeypatch, proc)
    assert proc.asked == 31


def test_reading_does_not_wait_for_a_process_without_an_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """An application may have thousands of such processes, and every scan would wait for each of them."""
    monkeypatch.setattr(process_table.time, "sleep", pytest.fail)
    proc = _ExecutingProc(0, b"")
    assert _read_marks(monkeypatch, proc) == frozenset()
    assert proc.asked == 2


def test_the_mark_of_a_just_started_process_is_found() -> None:
    """Popen returns before the new program has its environment."""
    for number in range(50):
        process = subprocess.Popen(["/bin/sleep", "60"], env={MARK_VARIABLE: f"just:{number}"})
        try:
            assert f"just:{number}" in Marks().read(process.pid)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
