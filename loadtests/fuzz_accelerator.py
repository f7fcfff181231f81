"""`python -m loadtests.fuzz_accelerator`: compares the accelerator with Python's decoders on random bodies.

Most of these bodies are mutations of valid ones. If the accelerator accepts a body, Python must accept the
body too, count the same records, and store the same bytes.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ingest_edge.accelerator import Accelerator
from loadtests.bench.otlp_payloads import otlp_bodies
from loadtests.bench.payloads import make_bodies
from tests.support.accelerator import build_accelerator, load_built
from tests.support.accelerator_samples.compare import (
    KINDS,
    NARROW_LIMITS,
    Comparison,
    Disagreement,
    make_comparison,
)
from tests.support.accelerator_samples.mutations import mutate
from tests.support.accelerator_samples.valid import make_body
from tests.support.engines import EngineMissing

_MUTATIONS = 20
"""Number of mutated bodies for each valid body."""
_NARROW = 0.3
"""The share of bodies that are validated with narrow limits, from 0 to 1."""
_PROGRESS_SECONDS = 1.0


@dataclass(slots=True)
class Counts:
    """How many bodies of one kind were compared, and how many of them the accelerator accepts."""

    realistic: int = 0
    realistic_accepted: int = 0
    """The bodies of the benchmark, and valid random bodies."""
    mutated: int = 0
    mutated_accepted: int = 0


class Run:
    """One run that compares some kinds of bodies."""

    def __init__(self, accelerator: Accelerator, seed: int, kinds: Sequence[str] = KINDS) -> None:
        self._chance = random.Random(seed)
        self._wide = {kind: make_comparison(accelerator, kind) for kind in kinds}
        self._narrow = {kind: make_comparison(accelerator, kind, NARROW_LIMITS) for kind in kinds}
        self.counts = {kind: Counts() for kind in kinds}

    @property
    def bodies(self) -> int:
        return sum(counts.realistic + counts.mutated for counts in self.counts.values())

    def compare_benchmark(self) -> None:
        """Compare the accelerator with Python on the bodies of the benchmark. Raises `Disagreement`."""
        for kind in self.counts:
            signal, _, coding = kind.partition(" ")
            bodies = otlp_bodies(signal, coding, 32) if coding else make_bodies(64, 100)
            for body in bodies:
                self._compare_realistic(kind, body)

    def compare_random(self) -> None:
        """Compare the accelerator with Python on a valid body of each kind, and on mutations of it. Raises
        `Disagreement`."""
        chance = self._chance
        for kind in self.counts:
            body, other = make_body(chance, kind), make_body(chance, kind)
            self._compare_realistic(kind, body)
            counts = self.counts[kind]
            for _ in range(_MUTATIONS):
                comparisons: Mapping[str, Comparison] = (
                    self._narrow if chance.random() < _NARROW else self._wide
                )
                counts.mutated += 1
                counts.mutated_accepted += comparisons[kind].compare(mutate(chance, kind, body, other))

    def _compare_realistic(self, kind: str, body: bytes) -> None:
        counts = self.counts[kind]
        counts.realistic += 1
        counts.realistic_accepted += self._wide[kind].compare(body)


def _show(counts: Mapping[str, Counts], seconds: float) -> None:
    table = Table("Bodies", box=None, pad_edge=False)
    for heading in ("valid", "accepted", "mutated", "accepted"):
        table.add_column(heading, justify="right")
    for kind, of in counts.items():
        valid_share = of.realistic_accepted / max(of.realistic, 1)
        mutated_share = of.mutated_accepted / max(of.mutated, 1)
        row = (f"{of.realistic:,}", f"{valid_share:.2%}", f"{of.mutated:,}", f"{mutated_share:.1%}")
        table.add_row(kind, *row)
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table)
    total = sum(of.realistic + of.mutated for of in counts.values())
    console.print(f"{total:,} bodies in {seconds:,.0f} s: no disagreement.")


def _fuzz(run: Run, seconds: float) -> float:
    """Compare the bodies of the benchmark, then random bodies until `seconds` have passed. Return how long this took in
    seconds. Raises `Disagreement`."""
    begun = shown = time.monotonic()
    run.compare_benchmark()
    while (now := time.monotonic()) < begun + seconds:
        run.compare_random()
        if sys.stderr.isatty() and now > shown + _PROGRESS_SECONDS:
            shown = now
            print(f"\r{now - begun:,.0f} of {seconds:,.0f} s, {run.bodies:,} bodies", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    return time.monotonic() - begun


def main() -> int:
    """Return exit status 0 if there is no disagreement. Return 1 if there is one, or if the accelerator
    cannot be built."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.fuzz_accelerator", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="time to run (%(default)g)")
    parser.add_argument("--seed", type=int, help="of the random bodies (another one each time)")
    parser.add_argument("--kind", action="append", choices=KINDS, help="only these bodies (all)")
    parser.add_argument("--json", metavar="FILE", help="also write the counts to this file; - prints them")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(2**32)
    try:
        accelerator = load_built(build_accelerator())
    except EngineMissing as error:
        print(error, file=sys.stderr)
        return 1
    run = Run(accelerator, seed, arguments.kind or KINDS)
    try:
        seconds = _fuzz(run, arguments.seconds)
        if panics := accelerator.count_panics():
            raise Disagreement(f"The accelerator panicked {panics} times; see above.")
    except Disagreement as error:
        print(f"Seed {seed}, after {run.bodies:,} bodies: {error}", file=sys.stderr)
        return 1
    document = {
        "accelerator": accelerator.VERSION,
        "seed": seed,
        "seconds": round(seconds, 1),
        "bodies": run.bodies,
        "kinds": {kind: asdict(counts) for kind, counts in run.counts.items()},
    }
    if arguments.json == "-":
        print(json.dumps(document, indent=2))
        return 0
    _show(run.counts, seconds)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(document, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
