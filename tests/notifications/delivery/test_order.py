"""The order of messages, and the number of concurrent sends."""

import asyncio
from datetime import timedelta

import pytest

from notifications.channels.interface import DeliveryFailed
from notifications.delivery.worker import ACCOUNT_SENDS, MAX_SENDS
from notifications.message import Message
from tests.support.deliveries import Deliveries

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


async def _fail(message: Message) -> None:
    raise DeliveryFailed("Connection refused.")


async def test_a_group_keeps_its_order_and_others_do_not_wait_for_it(deliveries: Deliveries) -> None:
    channel = await deliveries.add_channel("hook")
    blocked = [await deliveries.write(channel, group=1) for _ in range(2)]
    free = [await deliveries.write(channel, group=2) for _ in range(2)]

    async def answer(message: Message) -> None:
        if message.id == blocked[0] and len(deliveries.receivers.requests) <= 5:
            await _fail(message)

    deliveries.receivers.answers["hook"] = answer
    await deliveries.deliver()
    # The success of others brings the retry forward; it fails again.
    assert deliveries.receivers.of("hook") == [blocked[0], free[0], blocked[0], free[1], blocked[0]]
    await deliveries.deliver(after=140)
    assert deliveries.receivers.of("hook")[5:] == blocked
    assert await deliveries.read_statuses() == dict.fromkeys(blocked + free, "sent")


async def test_a_message_that_is_sent_again_holds_nothing_back(deliveries: Deliveries) -> None:
    channel = await deliveries.add_channel("hook")
    old = await deliveries.write(channel, group=1)
    await deliveries.deliver()

    async def answer(message: Message) -> None:
        if message.id == old:
            await _fail(message)

    deliveries.receivers.answers["hook"] = answer
    await deliveries.change(old, status="pending", attempts=0, requested_at=deliveries.now)
    new = await deliveries.write(channel, group=1)
    await deliveries.deliver()
    assert await deliveries.read_statuses() == {old: "pending", new: "sent"}


async def test_a_message_that_is_refused_while_others_are_accepted(deliveries: Deliveries) -> None:
    """The message does not block later messages of its group for days."""
    channel, other = await deliveries.add_channel("hook"), await deliveries.add_channel("other")
    refused = {await deliveries.write(channel, group=1), await deliveries.write(channel, group=2)}
    waiting = await deliveries.write(channel, group=1)

    async def answer(message: Message) -> None:
        if message.id in refused:
            await _fail(message)

    deliveries.receivers.answers["hook"] = answer
    for _ in range(9):
        # While the receiver accepts nothing, it may be down.
        await deliveries.write(other)
        await deliveries.deliver(after=4000)
        assert (await deliveries.read(waiting)).status == "pending"
    # Another worker has delivered a message, long before the next attempt, because attempts are an hour apart by now.
    await deliveries.write(channel, status="sent", sent_at=deliveries.now + timedelta(minutes=5))
    await deliveries.deliver(after=4000)
    first, second = sorted(refused)
    row = await deliveries.read(first)
    assert (row.status, row.last_error) == (
        "failed",
        "Connection refused. No retry follows: the receiver accepts other messages, which wait for this one.",
    )
    assert (await deliveries.read(waiting)).status == "sent"
    # No message waits for this one.
    assert (await deliveries.read(second)).status == "pending"


async def test_slow_receivers_delay_themselves_only(deliveries: Deliveries) -> None:
    """Two accounts whose receivers do not answer use no more than their share."""
    stuck = asyncio.Event()

    async def hang(message: Message) -> None:
        await stuck.wait()

    accounts = [await deliveries.add_account(name) for name in ("a", "b")]
    for account in accounts:
        for number in range(2 * ACCOUNT_SENDS):
            channel = await deliveries.add_channel(f"{account.slug}{number}", account)
            deliveries.receivers.answers[channel.name] = hang
            await deliveries.write(channel)
    quick = [
        await deliveries.write(await deliveries.add_channel(f"quick{number}"))
        for number in range(2 * ACCOUNT_SENDS)
    ]
    delivering = asyncio.create_task(deliveries.deliver())
    async with asyncio.timeout(30):
        while {(await deliveries.read(message)).status for message in quick} != {"sent"}:
            await asyncio.sleep(0)
    assert sum(deliveries.receivers.busy.values()) == len(accounts) * ACCOUNT_SENDS
    assert deliveries.receivers.most_at_once <= MAX_SENDS
    stuck.set()
    assert await delivering == (len(accounts) + 1) * 2 * ACCOUNT_SENDS
    assert set((await deliveries.read_statuses()).values()) == {"sent"}


async def test_failing_channels_of_an_account_are_sent_last(deliveries: Deliveries) -> None:
    dead = [await deliveries.add_channel(f"dead{number}") for number in range(ACCOUNT_SENDS)]
    for channel in dead:
        deliveries.receivers.answers[channel.name] = _fail
        await deliveries.write(channel)
    await deliveries.deliver()
    for channel in dead:
        await deliveries.write(channel)
    deliveries.now = deliveries.now.replace(second=1)
    await deliveries.write(await deliveries.add_channel("live"))
    deliveries.receivers.requests.clear()
    await deliveries.deliver()
    assert deliveries.receivers.requests[0][0] == "live"


async def test_undelivered_reminders_are_superseded(deliveries: Deliveries) -> None:
    channel = await deliveries.add_channel("hook")
    deliveries.receivers.answers["hook"] = _fail
    first = await deliveries.write(channel, group=1, reason="first")
    reminders = []
    for _ in range(5):
        await deliveries.deliver(after=86_400 / 2)
        reminders.append(await deliveries.write(channel, group=1, reason="reminder"))
    change = await deliveries.write(channel, group=1)
    last = await deliveries.write(channel, group=1, reason="reminder")
    del deliveries.receivers.answers["hook"]
    deliveries.receivers.requests.clear()
    await deliveries.deliver(after=4000)
    assert deliveries.receivers.of("hook") == [first, change, last]
    statuses = await deliveries.read_statuses()
    assert [statuses[reminder] for reminder in reminders] == ["canceled"] * 5
    reason = "A newer message of the same incidents follows."
    assert (await deliveries.read(reminders[0])).last_error == reason
    # A person may still want to see one of them.
    await deliveries.change(reminders[0], status="pending", requested_at=deliveries.now)
    await deliveries.write(channel, group=1)
    await deliveries.deliver()
    assert (await deliveries.read(reminders[0])).status == "sent"
