"""Kills the processes and removes the folders that a test run leaves behind, even a run that was killed.

A separate process watches a pipe that only the run keeps open, so that it notices even `kill -9`.

python -m tests.support.reaper MARK   serves; standard input is that pipe
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

_VARIABLE = "PYTEST_RUN_MARK"
_PREFIX = "pharos-test-"
_ROUNDS = 20
_START_SECONDS = 60
_DISK = Path("/tmp")
# A run in memory takes a seventh less CPU time, and needs 0.6 GB.
_MEMORY = Path("/dev/shm")
_ENOUGH_MEMORY = 4_000_000_000
_FINISHED = b"finished"
_FAILED = b"finished with failures"


class Reaper:
    """The watching process of one run. Everything that inherits the environment of the run carries its mark."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_MEMORY if _has_enough_memory() else _DISK))
        # Postgres runs as another user and must be able to pass through this folder.
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
        """End the watch after an orderly end of the run. A failed run keeps its folder until the next one."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(_FAILED if failed else _FINISHED)
            self._process.stdin.close()
        self._process.wait()


def run_folder() -> Path:
    """Return a folder of this run that every user may enter; pytest's own folders are closed to others."""
    name = os.environ.get(_VARIABLE)
    if not name:
        return Path(tempfile.gettempdir())
    return next(parent / name for parent in (_MEMORY, _DISK) if (parent / name).is_dir())


def _has_enough_memory() -> bool:
    return _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _ENOUGH_MEMORY


def remove_old_folders() -> None:
    """Remove the folders of failed runs that no reaper watches any more."""
    commands = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    watched = {word for command in commands for word in command if word.startswith(_PREFIX)}
    for folder in (*_MEMORY.glob(f"{_PREFIX}*"), *_DISK.glob(f"{_PREFIX}*")):
        with contextlib.suppress(OSError):
            # A run that has just started may have no reaper yet.
            if folder.name not in watched and time.time() - folder.stat().st_mtime > _START_SECONDS:
                _remove(folder)


def _remove(folder: Path) -> None:
    # Not `shutil.rmtree`: it recurses, and some tests make trees that are deeper than Python's limit.
    subprocess.run(["rm", "-rf", "--", folder], stderr=subprocess.DEVNULL, check=False)


def _find_marked(mark: str) -> list[psutil.Process]:
    """Return the processes of the run: by their environment, working directory or command line.

    Processes of a terminal count only by their environment: a person may be reading the run's files.
    """
    found = []
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(_VARIABLE) == mark or (
                process.terminal() is None
                and (mark in process.cwd() or any(mark in word for word in process.cmdline()))
            ):
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
    """Wait until the run has ended, then end its remaining processes.

    A run that ends in an orderly way may have lost a worker whose engines still run.
    """
    mark = sys.argv[1]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    message = sys.stdin.buffer.read()
    _end_marked(mark)
    if message != _FAILED:
        for parent in (_MEMORY, _DISK):
            _remove(parent / mark)


if __name__ == "__main__":
    main()
