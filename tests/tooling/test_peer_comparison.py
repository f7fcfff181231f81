"""`make bench-peers`: the definition of lost requests, and the comparison with Pharos."""

from collections import Counter

import pytest

from loadtests.peers.measure import Taken
from loadtests.peers.read_back import PeerFailed, Stored, check_stored
from loadtests.peers.report import ratios


@pytest.mark.parametrize(
    ("messages", "batches", "fault"),
    [
        (10, {}, None),
        (12, {}, None),
        (9, {}, "10 requests were answered, and 9 are stored"),
        (13, {}, "10 requests were answered, and 13 are stored"),
        (11, dict.fromkeys(range(11), 1), None),
        (11, {**dict.fromkeys(range(9), 1), 9: 2}, "1 batches are stored twice, such as 9"),
        (10, dict.fromkeys(range(9), 1), "10 batches were answered, and 9 different ones are stored"),
    ],
)
def test_each_answered_request_must_be_stored_once(
    messages: int, batches: dict[int, int], fault: str | None
) -> None:
    stored = Stored(messages, Counter({b"%d" % number: count for number, count in batches.items()}))
    if fault is None:
        check_stored(stored, answered=10, in_flight=2)
        return
    with pytest.raises(PeerFailed, match=fault):
        check_stored(stored, answered=10, in_flight=2)


def test_rounds_are_compared_one_by_one() -> None:
    costs = {"Pharos": (5.0, 8.0), "Go": (10.0, 10.0), "Rust": (4.0,)}
    taken = [
        Taken("ingest, 1 event", 0, number, peer, cost, 1.0, 1.0, 1.0, 1.0, 1, 1)
        for peer, values in costs.items()
        for number, cost in enumerate(values)
    ]
    assert ratios(taken, "Go") == [0.5, 0.8]
    assert ratios(taken, "Rust") == [1.25]
    assert ratios(taken, "Collector") == []
