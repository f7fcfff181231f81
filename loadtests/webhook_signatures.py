"""`python -m loadtests.webhook_signatures`: checks that the time to reject a wrong signature does not reveal how much
of the signature is right.

The method is that of dudect (Reparaz, Balasch, Verbauwhede: Dude, is my code constant time?, 2017). It checks
signatures that are wrong in the first digit and signatures that are wrong in the last digit, in random order, and
computes Welch's t of their times.
"""

import argparse
import gc
import hmac
import json
import math
import random
import string
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from statistics import fmean, variance
from typing import Any
from unittest.mock import patch

from rich.console import Console
from rich.table import Table

from git_hosts.all_hosts import HOSTS
from git_hosts.webhook_events import WebhookSecret
from pipeline_contracts.errors import BadSignature

MOST_T = 4.5
"""From this value of |t| on, dudect reports a difference."""
_KEPT = 0.9
"""Times above this quantile are ignored, because the machine was busy with something else."""
_BATCH = 500
_BODY_BYTES, _TOKEN_LENGTH = 32, 43
_NOW = datetime(2026, 3, 3, tzinfo=UTC)
_HEX, _BASE64 = string.hexdigits[:16], string.ascii_letters + string.digits + "+/"


@dataclass(frozen=True, slots=True)
class Delivery:
    """A webhook delivery to verify."""

    raw: bytes
    headers: dict[str, list[str]]
    secret: WebhookSecret


@dataclass(frozen=True, slots=True)
class Proof:
    """What a host sends to prove that a delivery is authentic."""

    name: str
    kind: str
    header: str
    digits: range
    """Where the digits of the signature begin and end in the header."""
    alphabet: str
    draw: Callable[[random.Random], Delivery]
    """Makes an authentic delivery. Two signatures share digits only by chance: with similar signatures, the processor
    would learn to predict the branches up to the wrong digit."""

    def spoil(self, side: int, chance: random.Random) -> Delivery:
        """Return a delivery whose signature is wrong in the first digit (`side` 0) or in the last digit (1)."""
        delivery = self.draw(chance)
        position = (self.digits[0], self.digits[-1])[side]
        value = list(delivery.headers[self.header][0])
        value[position] = chance.choice(self.alphabet.replace(value[position], ""))
        # Do not build the value from slices: the two kinds would then differ in their memory layout.
        return replace(delivery, headers={**delivery.headers, self.header: ["".join(value)]})


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one comparison. Times are means in ns, without outliers."""

    proof: str
    comparison: str
    kept: int
    first_ns: float
    last_ns: float
    t: float
    seen_from_ns: float
    """The smallest difference in ns that this number of measurements can detect."""
    is_control: bool

    @property
    def is_as_expected(self) -> bool:
        """Return True if no difference is found. For a control, which proves that the method works, return True if a
        difference is found."""
        return (abs(self.t) >= MOST_T) == self.is_control


def _hex_proof(name: str, kind: str, header: str) -> Proof:
    secret = WebhookSecret("hmac", "a secret of this measurement")

    def draw(chance: random.Random) -> Delivery:
        raw = chance.randbytes(_BODY_BYTES)
        digits = hmac.digest(secret.value.encode(), raw, "sha256").hex()
        return Delivery(raw, {header: [f"sha256={digits}"]}, secret)

    return Proof(name, kind, header, range(len("sha256="), len("sha256=") + 64), _HEX, draw)


def _draw_signed(chance: random.Random) -> Delivery:
    key, moment = b"a key of this measurement, 32 B.", str(int(_NOW.timestamp()))
    raw = chance.randbytes(_BODY_BYTES)
    digest = hmac.digest(key, f"id.{moment}.".encode() + raw, "sha256")
    headers = {
        "webhook-id": ["id"],
        "webhook-timestamp": [moment],
        "webhook-signature": [f"v1,{b64encode(digest).decode()}"],
    }
    return Delivery(raw, headers, WebhookSecret("signing", f"whsec_{b64encode(key).decode()}"))


def _draw_token(chance: random.Random) -> Delivery:
    token = "".join(chance.choices(_BASE64, k=_TOKEN_LENGTH))
    return Delivery(b"{}", {"x-gitlab-token": [token]}, WebhookSecret("plain", token))


_PROOFS = (
    _hex_proof("GitHub's signature", "github", "x-hub-signature-256"),
    _hex_proof("Bitbucket's signature", "bitbucket", "x-hub-signature"),
    # A signature has 43 digits and the padding character.
    Proof("GitLab's signature", "gitlab", "webhook-signature", range(3, 3 + 43), _BASE64, _draw_signed),
    Proof("GitLab's token", "gitlab", "x-gitlab-token", range(_TOKEN_LENGTH), _BASE64, _draw_token),
)


def _compare_naively(expected: Any, actual: Any) -> bool:
    """Compare in an insecure way: stop at the first difference."""
    if len(expected) != len(actual):
        return False
    return all(a == b for a, b in zip(expected, actual, strict=True))


def _measure(proof: Proof, measurements: int, chance: random.Random) -> tuple[list[int], list[int]]:
    """Return two lists of times in ns: for signatures that are wrong in the first digit, and for those that are wrong
    in the last digit."""
    verify = HOSTS[proof.kind].webhooks.verify_signature
    times: tuple[list[int], list[int]] = ([], [])
    gc.disable()
    try:
        for _ in range(measurements // _BATCH):
            # Create this before the first measurement, so that creating it does not influence the times.
            sides = [chance.getrandbits(1) for _ in range(_BATCH)]
            batch = [proof.spoil(side, chance) for side in sides]
            for side, delivery in zip(sides, batch, strict=True):
                before = time.perf_counter_ns()
                try:
                    verify(delivery.raw, delivery.headers, delivery.secret, _NOW)
                except BadSignature:
                    taken = time.perf_counter_ns() - before
                else:
                    raise AssertionError(f"{proof.name}: a wrong signature was accepted")
                times[side].append(taken)
            gc.collect(0)
    finally:
        gc.enable()
    return times


def _judge(proof: Proof, comparison: str, times: tuple[list[int], list[int]], is_control: bool) -> Verdict:
    both = sorted(times[0] + times[1])
    limit = both[int(_KEPT * (len(both) - 1))]
    first, last = ([taken for taken in side if taken <= limit] for side in times)
    error = math.sqrt(variance(first) / len(first) + variance(last) / len(last))
    difference = fmean(last) - fmean(first)
    return Verdict(
        proof=proof.name,
        comparison=comparison,
        kept=len(first) + len(last),
        first_ns=fmean(first),
        last_ns=fmean(last),
        t=difference / error,
        seen_from_ns=MOST_T * error,
        is_control=is_control,
    )


def _judge_all(measurements: int, chance: random.Random) -> Iterator[Verdict]:
    for proof in _PROOFS:
        # Do a first run, so that everything is loaded and warm.
        _measure(proof, 10 * _BATCH, chance)
        yield _judge(proof, "as it is", _measure(proof, measurements, chance), False)
        if proof.draw is _draw_token:
            # The host compares digests, so even a naive comparison would reveal nothing about the token.
            continue
        with patch.object(hmac, "compare_digest", _compare_naively):
            times = _measure(proof, measurements // 10, chance)
        yield _judge(proof, "control: byte by byte", times, True)


def _show(verdicts: list[Verdict]) -> None:
    table = Table("Proof", "Comparison", box=None, pad_edge=False)
    for heading in ("Kept", "First wrong, ns", "Last wrong, ns", "Seen from, ns", "t"):
        table.add_column(heading, justify="right")
    table.add_column(f"Difference (|t| ≥ {MOST_T:g})")
    for verdict in verdicts:
        table.add_row(
            verdict.proof,
            verdict.comparison,
            f"{verdict.kept:,}",
            f"{verdict.first_ns:,.1f}",
            f"{verdict.last_ns:,.1f}",
            f"{verdict.seen_from_ns:.1f}",
            f"{verdict.t:+.2f}",
            "seen" if abs(verdict.t) >= MOST_T else "none seen",
            style=None if verdict.is_as_expected else "red",
        )
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def main() -> int:
    """Return exit status 0 if no difference is found, except in the controls. Return 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.webhook_signatures", description=__doc__)
    parser.add_argument(
        "--measurements",
        type=int,
        default=200_000,
        help="of each proof; of its control a tenth (%(default)d)",
    )
    parser.add_argument("--seed", type=int, default=None, help="for the same random order again")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    if arguments.measurements < 10 * _BATCH:
        parser.error(f"--measurements must be {10 * _BATCH} or more")
    verdicts = list(_judge_all(arguments.measurements, random.Random(arguments.seed)))
    if arguments.json:
        print(json.dumps({"comparisons": [asdict(verdict) for verdict in verdicts]}))
    else:
        _show(verdicts)
    return 0 if all(verdict.is_as_expected for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
