"""A killed test run leaves no process and no folder behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

_ROOT = Path(__file__).parents[2]
_SECONDS = 120


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, pytest.param(signal.SIGKILL, marks=pytest.mark.full)],
    ids=lambda each: each.name,
)
def test_a_killed_run_leaves_nothing_behind(number: signal.Signals, tmp_path: Path) -> None:
    told = tmp_path / "pids"
    # Not the mark of this run: the inner one has its own.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    with open(tmp_path / "output", "wb") as output:
        run = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-n", "1", "tests/support/left_running.py"],
            cwd=_ROOT,
            env={**environment, "LEFT_RUNNING": str(told)},
            stdout=output,
            stderr=output,
        )
    try:
        deadline = time.monotonic() + _SECONDS
        while not (told.exists() and told.read_text()):
            assert run.poll() is None and time.monotonic() < deadline, (tmp_path / "output").read_text()
            time.sleep(0.05)
        started = [psutil.Process(int(pid)) for pid in told.read_text().split()]
        started += [child for process in started for child in process.children(recursive=True)]
        folder = Path("/tmp", started[0].environ()["PYTEST_RUN_MARK"])
        assert folder.exists()
    finally:
        run.send_signal(number)
        run.wait()
    _, alive = psutil.wait_procs(started, timeout=_SECONDS)
    assert not alive
    while folder.exists() and time.monotonic() < deadline + _SECONDS:
        time.sleep(0.05)
    assert not folder.exists()
