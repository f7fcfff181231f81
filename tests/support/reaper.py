"""Ends what a killed test run leaves behind: its engines, platforms and deployed applications, and its folders.

A process of its own watches a pipe that only the run holds open, so that it notices even `kill -9`.

python -m tests.support.reaper MARK   serves; standard input is that pipe
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil

_VARIABLE = "PYTEST_RUN_MARK"
_ROUNDS = 20
_FOLDERS = Path("/tmp")
_MEMORY = Path("/dev/shm")
_ENOUGH_MEMORY = 2_000_000_000
_FINISHED = b"finished"
_FAILED = b"finished with failures"


class Reaper:
    """The watching process of one run. Everything that inherits the environment of the run carries its mark."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pharos-test-", dir=_FOLDERS))
        # Servers that refuse to run as root have folders in it.
        self.folder.chmod(0o711)
        os.environ[_VARIABLE] = self.folder.name
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.reaper", self.folder.name],
            stdin=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
            env={name: value for name, value in os.environ.items() if name != _VARIABLE},
            # A signal to the whole foreground group, such as Ctrl-C, must not end it.
            start_new_session=True,
        )

    def close(self, *, failed: bool) -> None:
        """The run has ended in order and has stopped its own engines. The folders of a failed one stay."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(_FAILED if failed else _FINISHED)
            self._process.stdin.close()
        self._process.wait()


def run_folder() -> Path:
    """A folder of this run outside of pytest's own ones, which other users than root cannot enter."""
    name = os.environ.get(_VARIABLE)
    return _FOLDERS / name if name else Path(tempfile.gettempdir())


def memory_folder() -> Path:
    """A folder of this run in memory; `run_folder()` where there is none, or too little of it as in a container."""
    name = os.environ.get(_VARIABLE)
    if not name or not _MEMORY.is_dir() or shutil.disk_usage(_MEMORY).free < _ENOUGH_MEMORY:
        return run_folder()
    folder = _MEMORY / name
    folder.mkdir(mode=0o711, exist_ok=True)
    return folder


def _find_marked(mark: str) -> list[psutil.Process]:
    """The processes of the run: by their environment, or because they work in one of its folders."""
    found = []
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        with contextlib.suppress(psutil.Error, OSError):
            is_of_run = process.environ().get(_VARIABLE) == mark
            if is_of_run or mark in process.cwd() or any(mark in word for word in process.cmdline()):
                found.append(process)
    return found


def _end_marked(mark: str) -> None:
    # A process may start another one while the list is read.
    for _ in range(_ROUNDS):
        marked = _find_marked(mark)
        if not marked:
            break
        for process in marked:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(marked, timeout=5)


def main() -> None:
    """Wait until the run has ended; unless it said that it finished, end what is left of it."""
    mark = sys.argv[1]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    told = sys.stdin.buffer.read()
    if told not in (_FINISHED, _FAILED):
        _end_marked(mark)
    if told != _FAILED:
        shutil.rmtree(_FOLDERS / mark, ignore_errors=True)
    shutil.rmtree(_MEMORY / mark, ignore_errors=True)


if __name__ == "__main__":
    main()
