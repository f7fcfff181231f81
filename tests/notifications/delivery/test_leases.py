"""Several workers on one database."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from control_domain.tables.notifications import Notification
from notifications.channels.interface import DeliveryFailed
from notifications.delivery.leases import Due, find_due, take_lease
from notifications.delivery.worker import MAX_SENDS
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
async def test_two_notifications_of_a_receiver_are_not_leased_at_once(deliveries: Deliveries) -> None:
    """Two workers have found one notification each, and lease them in overlapping transactions."""
    channel = await deliveries.add_channel("hook")
    for _ in range(2):
        await deliveries.write(channel)
    first, second = [Due(1 + number, channel.account_id, channel.id, None) for number in range(2)]

    async def lease_second() -> Notification | None:
        async with deliveries.sessions() as session, session.begin():
            return await take_lease(session, second, deliveries.now, 60)

    async with deliveries.sessions() as session, session.begin():
        assert await take_lease(session, first, deliveries.now, 60) is not None
        leasing = asyncio.create_task(lease_second())
        # The other worker waits for this transaction. A longer wait would prove nothing more.
        await asyncio.wait({leasing}, timeout=0.1)
        assert not leasing.done()
    assert await leasing is None


async def test_receivers_that_are_busy_elsewhere_take_no_turn(deliveries: Deliveries) -> None:
    leased_until = datetime.now(UTC) + timedelta(hours=1)
    for number in range(MAX_SENDS):
        channel = await deliveries.add_channel(f"busy{number}")
        await deliveries.write(channel, leased_until=leased_until)
        await deliveries.write(channel)
    free = await deliveries.add_channel("free")
    await deliveries.write(free)
    async with deliveries.sessions() as session:
        due = await find_due(session, deliveries.now, limit=MAX_SENDS, without=[])
    assert [each.channel_id for each in due] == [free.id]


@pytest.mark.both_databases
@pytest.mark.parametrize("is_accepted", [True, False])
async def test_a_worker_that_was_too_slow_stores_nothing(deliveries: Deliveries, is_accepted: bool) -> None:
    message = await deliveries.write(await deliveries.add_channel("hook"))
    thaw = asyncio.Event()

    async def answer_late(_: Message) -> None:
        await thaw.wait()

    async def answer(_: Message) -> None:
        if not is_accepted:
            raise DeliveryFailed("Connection refused.")

    deliveries.receivers.answers["hook"] = answer
    slow = deliveries.open_worker(Receivers({"hook": answer_late}), lease_seconds=0.5)
    delivering = asyncio.create_task(slow.deliver_due())
    await wait_for_result(lambda: _read_lease(deliveries, message))
    # Nothing is due until the lease has ended.
    await wait_for_result(deliveries.deliver)
    stored = await deliveries.read(message)
    assert (stored.status, stored.attempts) == ("sent" if is_accepted else "pending", 1)
    thaw.set()
    assert await delivering == 1
    after = await deliveries.read(message)
    assert (after.status, after.attempts, after.sent_at) == (stored.status, 1, stored.sent_at)
    assert len(await deliveries.read_attempts(message)) == 1


async def _read_lease(deliveries: Deliveries, message: str) -> datetime | None:
    return (await deliveries.read(message)).leased_until
