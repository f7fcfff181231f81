"""Costly conversions: one at a time for each account, a few in total, and a limited wait."""

import asyncio

import pytest

from ingest_edge.sentry.conversion_slots import ConversionSlots
from pipeline_contracts.errors import Unavailable


async def test_no_account_waits_for_all_conversions_of_another() -> None:
    slots, order, running, most = ConversionSlots(slots=2), [], 0, 0

    async def convert(account: str) -> None:
        nonlocal running, most
        async with slots.hold(account):
            running += 1
            most = max(most, running)
            order.append(account)
            await asyncio.sleep(0)
            running -= 1

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        for account in ("loud", "loud", "loud", "loud", "second", "quiet"):
            group.create_task(convert(account))
    # `quiet` arrived last, and waits for at most one conversion of `loud` and of `second`.
    assert order.index("quiet") == 2
    assert (most, sorted(order)) == (2, ["loud"] * 4 + ["quiet", "second"])
    assert slots._turns == {}


async def test_wait_is_bounded() -> None:
    """Both waits are limited: for a slot, and for another conversion of the account."""
    for slots, other in [(1, "b"), (2, "a")]:
        bounded = ConversionSlots(slots, wait_seconds=0)
        # The first one needs no wait.
        async with bounded.hold("a"):
            with pytest.raises(Unavailable) as raised:
                async with bounded.hold(other):
                    raise AssertionError("a slot is free")
            assert raised.value.headers["Retry-After"] == "1"
        assert bounded._turns == {}
        async with bounded.hold(other):
            pass
