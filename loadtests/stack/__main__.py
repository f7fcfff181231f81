"""The commands `make stack` and `make stack-down`."""

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from loadtests.stack.parts import PartFailed

_START_SECONDS = 1000.0
_END_SECONDS = 90.0


def main() -> int:
    """Return exit status 0 if the stack runs (or was stopped). Return 1 and print the reason if it did not
    start."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.stack", description=__doc__)
    parser.add_argument("action", choices=("up", "down", "hold"), help="hold: what `up` leaves running")
    parser.add_argument("--folder", type=Path, default=Path(".stack"))
    parser.add_argument("--edges", type=int, default=2)
    parser.add_argument("--consumers", type=int, default=2)
    parser.add_argument("--port", type=int, default=8000, help="of the gateway (8000)")
    parser.add_argument("--apps-port", type=int, default=8090, help="of deployed applications (8090)")
    arguments = parser.parse_args()
    folder: Path = arguments.folder.absolute()
    if arguments.action == "down":
        return _down(folder)
    if arguments.action == "hold":
        return _hold(folder, arguments)
    return _up(folder, arguments)


def _up(folder: Path, arguments: argparse.Namespace) -> int:
    if _running(folder) is not None:
        print("It runs already; `make stack-down` ends it.", file=sys.stderr)
        return 1
    # A stack begins without data. Data of an earlier stack is only for trials and is deleted.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    log_path = folder / "stack.log"
    with open(log_path, "wb") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "loadtests.stack", "hold", "--folder", str(folder)),
                *("--edges", str(arguments.edges), "--consumers", str(arguments.consumers)),
                *("--port", str(arguments.port), "--apps-port", str(arguments.apps_port)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    (folder / "stack.pid").write_text(str(process.pid))
    shown = 0
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        lines = log_path.read_text().splitlines()
        for line in lines[shown:]:
            print(line, flush=True)
        shown = len(lines)
        if lines and lines[-1].startswith("Ready"):
            return 0
        if process.poll() is not None:
            return 1
        time.sleep(0.1)
    print(f"It is not ready after {_START_SECONDS:.0f} s; see {log_path}", file=sys.stderr)
    return 1


def _hold(folder: Path, arguments: argparse.Namespace) -> int:
    from loadtests.stack.stack import running_stack
    from tests.support.engines import EngineMissing

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        with running_stack(
            folder,
            edges=arguments.edges,
            consumers=arguments.consumers,
            port=arguments.port,
            apps_port=arguments.apps_port,
            report_progress=lambda line: print(line, flush=True),
        ) as stack:
            base_url = stack.credentials["base_url"]
            print(f"Ready: {base_url}; keys and addresses in {folder / 'credentials.json'}", flush=True)
            stop.wait()
    except (EngineMissing, PartFailed, RuntimeError) as error:
        print(f"The stack could not be started: {error}", flush=True)
        return 1
    return 0


def _down(folder: Path) -> int:
    pid = _running(folder)
    if pid is None:
        print("No stack runs.")
        return 0
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _END_SECONDS
    while _running(folder) is not None:
        if time.monotonic() > deadline:
            print(f"Process {pid} does not end; see {folder / 'stack.log'}", file=sys.stderr)
            return 1
        time.sleep(0.1)
    print("The stack is down.")
    return 0


def _running(folder: Path) -> int | None:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, ValueError):
        pid = int((folder / "stack.pid").read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes() if Path("/proc").exists() else b"loadtests.stack"
        os.kill(pid, 0)
        return pid if b"loadtests.stack" in command else None
    return None


if __name__ == "__main__":
    sys.exit(main())
