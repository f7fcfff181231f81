"""No request to a deployed application fails while it is deployed, scaled, broken, killed, hibernated and woken."""

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from loadtests.switching.call import Call
from loadtests.switching.operations import OPERATIONS, Expected, Operation
from loadtests.switching.steady_load import Pace
from loadtests.switching.tour import run_tour
from loadtests.switching.verdict import judge

_PACE = Pace(per_second=100.0, lead_seconds=0.3, tail_seconds=0.7, stream_seconds=1.0)
_SHORT_PACE = Pace(per_second=50.0, lead_seconds=0.1, tail_seconds=0.3, stream_seconds=0.5)
_LEFT_OUT = ("nothing", "deploy to 5")
_SHORT = (
    "deploy",
    "rollback",
    "scale 5 to 2",
    "scale to 4 and deploy",
    "failing health check",
    "crash of 1 of 1",
    "hibernate and wake",
)
"""One operation of each kind, and a deploy during a scale. Promotions and repeated crashes are for `--full`."""
_MOST_REPLICAS = 3


def _shorten(operation: Operation) -> Operation:
    """Return the operation with fewer replicas at its begin."""
    if operation.replicas is None:
        return operation
    return replace(operation, replicas=min(operation.replicas, _MOST_REPLICAS))


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("operations", "pace", "fewest"),
    [
        pytest.param(
            [_shorten(one) for one in OPERATIONS if one.name in _SHORT],
            _SHORT_PACE,
            10,
            id="one of each kind",
        ),
        pytest.param(
            [one for one in OPERATIONS if one.name not in _LEFT_OUT],
            _PACE,
            50,
            id="all",
            marks=pytest.mark.full,
        ),
    ],
)
async def test_no_request_fails_during_operations_on_the_application(
    operations: Sequence[Operation], pace: Pace, fewest: int
) -> None:
    verdicts = await run_tour(operations, pace, on_begin=lambda name: None)
    assert [(one.operation, dict(one.failures)) for one in verdicts] == [(one.name, {}) for one in operations]
    assert all(one.requests > fewest and one.repeated == 0 for one in verdicts)


def _answered(version: str, kind: str = "GET", failure: str | None = None) -> Call:
    now = time.perf_counter()
    return Call(kind, "/", b"", 0.0, now, now, now + 0.1, version, 1, failure)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expected", "call", "failed", "in_flight"),
    [
        (Expected("v1", "v2"), _answered("v1"), 0, 0),
        (Expected("v1", "v2"), _answered("v3"), 1, 0),
        (Expected("v1", "v2", datetime.now(UTC) - timedelta(seconds=9)), _answered("v1"), 1, 0),
        (Expected("v1", "v2", datetime.now(UTC) + timedelta(hours=1)), _answered("v1"), 0, 0),
        (Expected("v1", "v1"), _answered("v1", "POST", "502"), 1, 0),
        (Expected("v1", "v1", kills=((0.0, 1e12),)), _answered("v1", "POST", "502"), 0, 1),
        (Expected("v1", "v1", kills=((0.0, 1e12),)), _answered("v1", "GET", "502"), 1, 0),
        (Expected("v1", "v1", kills=((0.0, 1.0),)), _answered("v1", "POST", "502"), 1, 0),
    ],
)
def test_definition_of_a_failed_request(expected: Expected, call: Call, failed: int, in_flight: int) -> None:
    verdict = judge("deploy", expected, [call], 1.0, 0.0)
    assert (verdict.failed, verdict.in_flight) == (failed, in_flight)
