"""Held connections do not affect other tenants. `tests/ingest_edge/test_body_memory.py` and `test_heads.py` have the
same attacks on an edge in the test's own process."""

import pytest

from tests.hostile.held_connections import ATTACKS, attack, serving

_MB = 2**20
# Twice the account's share of bodies, and the memory for reading them. Page views load the table of user agents.
_MORE_BYTES = {
    "257 announced page views": 64 * _MB,
    "16 announced batches of one key": 16 * _MB,
    "16 batches of one key without their last byte": 80 * _MB,
    "150 heads without end": 32 * _MB,
}


@pytest.mark.full
@pytest.mark.parametrize("name", ATTACKS)
async def test_other_tenants_are_served_and_memory_is_bounded(name: str) -> None:
    with serving() as target:
        outcome = await attack(target, name, 12.0)
    assert outcome.answers.keys() == {202}, outcome
    assert outcome.peak - outcome.before < _MORE_BYTES[name], outcome
