"""Uploads that an application does not read do not fail a neighbour's requests.

`tests/deployer/traffic/test_fair_proxy.py` has the same with fewer slots, in the test's own process.
"""

import pytest

from tests.hostile.unread_uploads import attack


@pytest.mark.full
async def test_a_neighbour_is_served_during_5000_unread_uploads() -> None:
    neighbours, attackers = await attack(5000, 100)
    assert neighbours == {"200": 100}
    assert attackers["waits"] <= 2000 and attackers["503"] >= 2000
