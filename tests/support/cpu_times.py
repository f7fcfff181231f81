"""Measure the CPU seconds of each test file: of the test process and of all programs that it started.

`pytest --costs=FOLDER` writes one JSON line per test and per file; this prints them as a table:

python -m tests.support.cpu_times FOLDER [--top 30] [--tests] [--before FOLDER]
"""

import argparse
import json
import os
import resource
import time
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest


class CpuTimes:
    """The pytest plugin that writes the measurements.

    A file's figure includes child processes, even those that still run. A test's figure is the CPU of the test process
    alone: a program often outlives the test that started it, and the fork server is the parent of most programs.
    """

    def __init__(self, folder: Path) -> None:
        self._lines = open(folder / f"{os.getpid()}.jsonl", "a", buffering=1)  # noqa: SIM115
        self._file = "(start and collection)"
        self._begun = (0.0, time.monotonic())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        file = item.nodeid.partition("::")[0]
        if file != self._file:
            self._end_file(file)
        begun = _cpu_of(resource.RUSAGE_SELF), time.monotonic()
        try:
            return (yield)
        finally:
            self._write({"test": item.nodeid}, begun, _cpu_of(resource.RUSAGE_SELF))

    def pytest_sessionfinish(self) -> None:
        self._end_file("(end)")

    def pytest_unconfigure(self) -> None:
        self._end_file("")
        self._lines.close()

    def _end_file(self, following: str) -> None:
        used = _cpu_with_children()
        self._write({"file": self._file}, self._begun, used)
        self._file, self._begun = following, (used, time.monotonic())

    def _write(self, labels: dict[str, str], begun: tuple[float, float], used: float) -> None:
        spent = {"cpu": round(used - begun[0], 3), "wall": round(time.monotonic() - begun[1], 3)}
        self._lines.write(json.dumps({**labels, **spent}) + "\n")


def _cpu_of(scope: int) -> float:
    usage = resource.getrusage(scope)
    return usage.ru_utime + usage.ru_stime


def _cpu_with_children() -> float:
    total = _cpu_of(resource.RUSAGE_SELF) + _cpu_of(resource.RUSAGE_CHILDREN)
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def add_option(parser: pytest.Parser) -> None:
    """Add the option `--costs`."""
    parser.addoption(
        "--costs", metavar="FOLDER", type=Path, help="write the CPU time of each test file to this new folder"
    )


def register(config: pytest.Config) -> None:
    """Measure in each process that runs tests, if `--costs` is given. Raises `UsageError` if the folder has files."""
    folder: Path | None = config.getoption("costs")
    if folder is None:
        return
    is_worker = hasattr(config, "workerinput")
    # The workers share the folder, and start after this.
    if not is_worker:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise pytest.UsageError(f"--costs {folder}: the folder is not empty. Give a new one.")
    if is_worker or not config.getoption("numprocesses", None):
        config.pluginmanager.register(CpuTimes(folder))


def _read(folder: Path, kind: str) -> dict[str, tuple[float, float]]:
    """Return CPU and wall seconds by name, summed over the processes of the run."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for line in _lines(folder):
        if kind in line:
            sums[line[kind]][0] += line["cpu"]
            sums[line[kind]][1] += line["wall"]
    return {name: (cpu, wall) for name, (cpu, wall) in sums.items()}


def _lines(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            yield json.loads(line)


def main() -> None:
    """Print the most expensive files or tests."""
    parser = argparse.ArgumentParser(prog="cpu_times", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--top", type=int, default=30)
    parser.add_argument("--tests", action="store_true", help="single tests: CPU of the test process alone")
    parser.add_argument("--before", type=Path, metavar="FOLDER", help="an earlier run to compare with")
    arguments = parser.parse_args()
    kind = "test" if arguments.tests else "file"
    now = _read(arguments.folder, kind)
    before = _read(arguments.before, kind) if arguments.before else {}
    ordered = sorted(now | before, key=lambda name: -max(now.get(name, (0,))[0], before.get(name, (0,))[0]))
    print(f"| {'CPU before | ' if before else ''}CPU s | wall s | {kind} |")
    print(f"|{'---:|' if before else ''}---:|---:|---|")
    for name in ordered[: arguments.top]:
        cpu, wall = now.get(name, (0.0, 0.0))
        earlier = f"{before.get(name, (0.0,))[0]:.1f} | " if before else ""
        print(f"| {earlier}{cpu:.1f} | {wall:.1f} | {name} |")
    print(f"\n{sum(cpu for cpu, _ in now.values()):.0f} s of CPU in {len(now)} rows", end="")
    print(f"; before: {sum(each[0] for each in before.values()):.0f} s" if before else "")


if __name__ == "__main__":
    main()
