"""Plant faults one at a time in a copy of the tree, and report which of them the tests catch.

    python -m tests.mutants.run_mutants --only consumers-plan-overrun edge-span-of-zeros

For each mutation pytest runs in the copy with `-x`: first the tests that most likely catch it, then all tests given.
Only tests of `make test` run, unless `--pytest=--full` is given. A test that fails runs twice more: without the
mutation, and with it. Verdicts:

    caught    a test failed, passed without the mutation, and failed again with it
    missed    all tests given passed
    unstable  a test failed, but the two repetitions did not confirm it: fix or exclude the test, then repeat
    broken    pytest failed before it ran a test: the mutation is unsuitable
    timeout   the time limit was over

Exit status: 0 if every mutation was caught, else 1.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Literal, NoReturn

from tests.mutants.mutations import Mutation, load_mutations
from tests.mutants.scratch_tree import ScratchTree, scratch_tree
from tests.mutants.select_tests import order_tests

Verdict = Literal["caught", "missed", "unstable", "broken", "timeout"]

_PASSED, _FAILED, _NOTHING_RAN = 0, 1, 5
_TIMED_OUT = -1
# Time for fixtures to stop their engines after Ctrl-C.
_END_SECONDS = 30.0
# The same seed in each run, so that sets of strings have the same order and a failure is reproducible.
_HASH_SEED = "1"
_FAILURE = re.compile(r"^(?:FAILED|ERROR) (tests/[^\[\n]*?(?:\[.*?\])?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict on one mutation. `test` is the first that failed; `detail` is the end of the output if pytest neither
    passed nor failed."""

    id: str
    package: str
    kind: str
    verdict: Verdict
    seconds: float
    test: str = ""
    detail: str = ""


class Runner:
    """Runs the mutations in one copy of the tree."""

    def __init__(self, tree: ScratchTree, arguments: argparse.Namespace) -> None:
        self._tree = tree
        self._given: list[str] = [path.rstrip("/") for path in arguments.tests]
        self._all_at_once: bool = arguments.all_at_once
        self._limit: float = arguments.limit
        # The table's own test fails on any mutated tree.
        self._options = ["-x", "-q", "-rfE", "-p", "no:cacheprovider", "--ignore=tests/mutants"]
        if arguments.workers > 1:
            self._options += [f"--numprocesses={arguments.workers}", "--dist=loadfile"]
        if "--full" not in arguments.pytest:
            self._options.append("--quick")
        self._options += arguments.pytest

    def run(self, mutation: Mutation) -> Result:
        """Plant the mutation, run the tests, and remove it again."""
        begun = time.monotonic()
        verdict, test, detail = self._judge(mutation)
        seconds = round(time.monotonic() - begun, 1)
        return Result(mutation.id, mutation.package, mutation.kind, verdict, seconds, test, detail)

    def _judge(self, mutation: Mutation) -> tuple[Verdict, str, str]:
        ends_at = time.monotonic() + self._limit
        groups = order_tests(self._tree.root, mutation, self._given)
        done: list[str] = []
        for group in groups[-1:] if self._all_at_once else groups:
            if set(group) <= set(done):
                continue
            with self._tree.planted(mutation):
                status, output = self._pytest([*group, *(f"--deselect={path}" for path in done)], ends_at)
            if status == _TIMED_OUT:
                return "timeout", "", output
            if status == _FAILED:
                found = _FAILURE.search(output)
                if found is None:
                    return "broken", "", output
                return ("caught" if self._is_confirmed(mutation, found[1]) else "unstable"), found[1], ""
            if status not in (_PASSED, _NOTHING_RAN):
                return "broken", "", output
            done += group
        return "missed", "", ""

    def _is_confirmed(self, mutation: Mutation, test: str) -> bool:
        """True if the test passes without the mutation and fails with it."""
        without, _ = self._pytest([test], time.monotonic() + self._limit)
        if without != _PASSED:
            return False
        with self._tree.planted(mutation):
            status, _ = self._pytest([test], time.monotonic() + self._limit)
        return status == _FAILED

    def _pytest(self, arguments: Sequence[str], ends_at: float) -> tuple[int, str]:
        """Run pytest in the copy; return its exit status and the end of its output."""
        log = self._tree.root / ".mutation.log"
        # A PYTHONPATH of the caller would take precedence over the copy.
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(self._tree.python), "-m", "pytest", *self._options, *arguments],
                cwd=self._tree.root,
                env={
                    **variables,
                    "PYTHONHASHSEED": _HASH_SEED,
                    "VIRTUAL_ENV": str(self._tree.root / ".venv"),
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                status = process.wait(max(1.0, ends_at - time.monotonic()))
            except subprocess.TimeoutExpired:
                status = _TIMED_OUT
            finally:
                self._end(process)
        return status, log.read_text(errors="replace")[-4000:]

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        """Stop pytest and its process group. The reaper of that pytest ends processes that have left the group."""
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def main() -> int:
    """Run the command line."""
    arguments = _read_arguments()
    mutations = [one for one in load_mutations() if not arguments.only or one.id in arguments.only]
    if unknown := set(arguments.only) - {one.id for one in mutations}:
        sys.exit(f"No mutation is called {', '.join(sorted(unknown))}; --list shows all.")
    if arguments.list:
        for one in mutations:
            print(f"{one.id:46} {one.kind:26} {one.breaks}")
        return 0
    results: list[Result] = []
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with scratch_tree() as tree:
            runner = Runner(tree, arguments)
            for number, one in enumerate(mutations, 1):
                result = runner.run(one)
                results.append(result)
                print(f"{number:>2}/{len(mutations)} {_line(result)}", flush=True)
                if result.detail:
                    print(result.detail, file=sys.stderr, flush=True)
                if arguments.json is not None:
                    arguments.json.write_text(json.dumps([asdict(each) for each in results], indent=1))
    except KeyboardInterrupt:
        print("Interrupted: all processes of the run have been stopped.", file=sys.stderr)
    _print_table(results)
    return 0 if len(results) == len(mutations) and all(one.verdict == "caught" for one in results) else 1


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="run_mutants", description="Report which planted faults the tests catch."
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="ID", help="run these mutations alone")
    parser.add_argument("--list", action="store_true", help="show the mutations and run nothing")
    parser.add_argument(
        "--tests", nargs="+", default=["tests"], metavar="PATH", help="the suite to judge (tests)"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the results here, after each mutation"
    )
    parser.add_argument(
        "--all-at-once", action="store_true", help="run all tests in one pytest run, not the likeliest first"
    )
    parser.add_argument(
        "--limit", type=float, default=7200.0, metavar="S", help="seconds for a mutation (7200)"
    )
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes that tests run in (1)")
    parser.add_argument(
        "--pytest", nargs="+", default=[], metavar="ARG", help="more arguments, as --pytest=--full"
    )
    return parser.parse_args()


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _line(result: Result) -> str:
    return f"{result.verdict:8} {result.seconds:7.1f} s  {result.id:46} {result.test}".rstrip()


def _print_table(results: Sequence[Result]) -> None:
    print(f"\n{'package':20} mutations caught missed other")
    for package in sorted({one.package for one in results}):
        counts = Counter(one.verdict for one in results if one.package == package)
        other = counts.total() - counts["caught"] - counts["missed"]
        print(f"{package:20} {counts.total():9} {counts['caught']:6} {counts['missed']:6} {other:5}")
    for one in results:
        if one.verdict != "caught":
            print(_line(one))


if __name__ == "__main__":
    sys.exit(main())
