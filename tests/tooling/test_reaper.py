"""A killed test run leaves no process and no folder."""

import os
import shutil
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
    ("killed", "number"),
    [
        ("run", signal.SIGTERM),
        # The reaper handles these processes in the same way.
        pytest.param("run", signal.SIGKILL, marks=pytest.mark.full),
        pytest.param("worker", signal.SIGKILL, marks=pytest.mark.full),
    ],
)
def test_a_killed_run_leaves_nothing_behind(killed: str, number: signal.Signals, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    # Not this run's mark: the inner run has its own.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    with open(tmp_path / "output", "wb") as output:
        run = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "pytest",
                "-n",
                "1",
                "--max-worker-restart",
                "0",
                "tests/support/left_running.py",
            ],
            cwd=_ROOT,
            env={**environment, "LEFT_RUNNING": str(pids)},
            stdout=output,
            stderr=output,
        )
    try:
        deadline = time.monotonic() + _SECONDS
        while not (pids.exists() and pids.read_text()):
            assert run.poll() is None and time.monotonic() < deadline, (tmp_path / "output").read_text()
            time.sleep(0.05)
        started = [psutil.Process(int(pid)) for pid in pids.read_text().split()]
        started += [child for process in started for child in process.children(recursive=True)]
        mark = started[0].environ()["PYTEST_RUN_MARK"]
        (folder,) = (path for parent in ("/dev/shm", "/tmp") if (path := Path(parent, mark)).exists())
    finally:
        if killed == "run":
            run.send_signal(number)
        else:
            started[0].send_signal(number)
        run.wait()
    _, alive = psutil.wait_procs(started, timeout=_SECONDS)
    assert not alive
    # A run that ended with a failure keeps its folder for inspection.
    if killed == "worker":
        shutil.rmtree(folder)
    while folder.exists() and time.monotonic() < deadline + _SECONDS:
        time.sleep(0.05)
    assert not folder.exists()
