"""Small bodies with large rows: the edge refuses most, the consumers store all rows of accepted bodies, and other
callers are served meanwhile."""

from pathlib import Path

import pytest

from tests.hostile.attack_expansion import Cost, attack
from tests.hostile.expanding_bodies import BODIES


def _others_are_served(cost: Cost) -> None:
    assert cost.neighbour_stored
    assert cost.dead_letters == 0


# tests/otlp/test_expansion.py tests smaller bodies of the same kinds.
@pytest.mark.full
@pytest.mark.timeout(300)
def test_the_edge_refuses_expanding_bodies(tmp_path: Path) -> None:
    cost = attack(tmp_path, BODIES)
    assert {status for _, status in cost.answers} == {413}
    assert cost.rows == 0
    _others_are_served(cost)
    # Reading one protobuf body takes a hundred megabytes, and four are read at once.
    assert cost.peak_mb - cost.idle_mb < 800


# tests/consumers/test_split_records.py splits smaller records.
@pytest.mark.full
@pytest.mark.timeout(300)
def test_the_consumers_store_expanding_bodies(tmp_path: Path) -> None:
    name = "a resource's attribute"
    cost = attack(tmp_path, {name: BODIES[name]}, each=2, limit=2**40)
    assert {status for _, status in cost.answers} == {200}
    assert cost.rows == 4 * 10_801
    _others_are_served(cost)
    # Without a split, each body takes 355 MB three times.
    assert cost.peak_mb - cost.idle_mb < 1200
