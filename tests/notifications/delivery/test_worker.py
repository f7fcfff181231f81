"""The worker in the background: woken, stopped, started again."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from control_domain.database.errors import DatabaseUnavailable
from notifications.delivery import worker as deliveries_worker
from notifications.delivery.store_attempt import store_attempt
from notifications.delivery.worker import running_deliveries
from notifications.message import Message
from tests.support.deliveries import Deliveries
from tests.support.waits import wait_for_result

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


async def _is_sent(deliveries: Deliveries, message: str) -> bool:
    return (await deliveries.read(message)).status == "sent"


async def test_worker_sends_when_woken_and_continues_immediately(
    deliveries: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries_worker, "_POLL_SECONDS", 600.0)
    channel = await deliveries.add_channel("hook")
    async with running_deliveries(deliveries.open_worker(), is_alone=True) as worker:
        # The first poll of the worker.
        await asyncio.sleep(0.05)
        messages = [await deliveries.write(channel, group=1) for _ in range(3)]
        worker.wake()
        await wait_for_result(lambda: _is_sent(deliveries, messages[-1]))
    assert deliveries.receivers.of("hook") == messages


async def test_leases_of_a_former_process_end_if_there_is_no_other(deliveries: Deliveries) -> None:
    leased_until = datetime.now(UTC) + timedelta(hours=1)
    message = await deliveries.write(await deliveries.add_channel("hook"), leased_until=leased_until)
    assert await deliveries.deliver() == 0
    async with running_deliveries(deliveries.open_worker(), is_alone=True):
        await wait_for_result(lambda: _is_sent(deliveries, message))


async def test_a_stop_waits_a_little_for_sends_in_flight(
    deliveries: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries_worker, "_SHUTDOWN_SECONDS", 0.2)
    begun, stopping = asyncio.Event(), asyncio.Event()

    async def answer_late(message: Message) -> None:
        await stopping.wait()

    async def hang(message: Message) -> None:
        begun.set()
        await asyncio.Event().wait()

    deliveries.receivers.answers |= {"late": answer_late, "stuck": hang}
    messages = [await deliveries.write(await deliveries.add_channel(name)) for name in ("late", "stuck")]
    async with running_deliveries(deliveries.open_worker(), is_alone=False):
        await begun.wait()
        waiting = await deliveries.write(await deliveries.add_channel("other"))
        stopping.set()
    late, stuck = [await deliveries.read(message) for message in messages]
    assert late.status == "sent"
    assert (stuck.status, stuck.attempts, stuck.leased_until) == ("pending", 0, None)
    assert (await deliveries.read(waiting)).status == "pending"
    del deliveries.receivers.answers["stuck"]
    assert await deliveries.deliver() == 2


async def test_an_outcome_is_stored_once_the_database_is_back(
    deliveries: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries_worker, "_STORE_PAUSES", (0.0, 0.0))
    failures = 2

    async def store(*arguments: Any) -> Any:
        nonlocal failures
        if failures:
            failures -= 1
            raise DatabaseUnavailable("The database does not answer now.")
        return await store_attempt(*arguments)

    monkeypatch.setattr(deliveries_worker, "store_attempt", store)
    first, second = [await deliveries.write(await deliveries.add_channel(name)) for name in "ab"]
    assert await deliveries.deliver() == 2
    assert await deliveries.read_statuses() == {first: "sent", second: "sent"}
    # The database stays unavailable. The lease keeps the message from being sent again immediately.
    failures = 3
    third = await deliveries.write(await deliveries.add_channel("c"))
    assert await deliveries.deliver() == 1
    row = await deliveries.read(third)
    assert row.status == "pending" and row.leased_until is not None
    await deliveries.open_worker().release_all_leases()
    assert await deliveries.deliver() == 1
    assert deliveries.receivers.of("c") == [third, third]
