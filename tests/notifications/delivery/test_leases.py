"""Several workers on one database."""

import asyncio
from datetime import datetime

import pytest

from notifications.message import Message
from tests.support.deliveries import Deliveries, Receivers
from tests.support.waits import wait_for_result


@pytest.mark.both_databases
async def test_no_message_is_sent_twice_and_no_receiver_gets_two_at_once(deliveries: Deliveries) -> None:
    channels = [await deliveries.add_channel(f"hook{number}") for number in range(3)]
    messages = [
        await deliveries.write(channel, group=10 * channel.id + number % 3)
        for number in range(6)
        for channel in channels
    ]
    workers = [deliveries.open_worker() for _ in range(3)]
    while "pending" in (await deliveries.read_statuses()).values():
        # Ends early for a worker that finds every receiver busy.
        await asyncio.gather(*(worker.deliver_due() for worker in workers))
    # `Receivers.send` checks that a receiver is sent one message at a time.
    assert sorted(sent for _, sent in deliveries.receivers.requests) == sorted(messages)
    assert await deliveries.read_statuses() == dict.fromkeys(messages, "sent")
    for channel in channels:
        groups: dict[int, list[str]] = {}
        for sent in deliveries.receivers.of(channel.name):
            groups.setdefault((await deliveries.read(sent)).group_id, []).append(sent)
        assert all(sent == sorted(sent) for sent in groups.values())


@pytest.mark.both_databases
async def test_a_worker_that_was_too_slow_stores_nothing(deliveries: Deliveries) -> None:
    message = await deliveries.write(await deliveries.add_channel("hook"))
    thaw = asyncio.Event()

    async def answer(_: Message) -> None:
        await thaw.wait()

    slow = deliveries.open_worker(Receivers({"hook": answer}), lease_seconds=0.5)
    delivering = asyncio.create_task(slow.deliver_due())
    await wait_for_result(lambda: _read_lease(deliveries, message))

    async def deliver() -> bool:
        await deliveries.deliver()
        return (await deliveries.read(message)).status == "sent"

    await wait_for_result(deliver)
    sent = await deliveries.read(message)
    thaw.set()
    assert await delivering == 1
    after = await deliveries.read(message)
    assert (after.attempts, after.sent_at, after.leased_until) == (1, sent.sent_at, None)
    assert len(await deliveries.read_attempts(message)) == 1


async def _read_lease(deliveries: Deliveries, message: str) -> datetime | None:
    return (await deliveries.read(message)).leased_until
