"""The effects of each kind of failure, with a clock that jumps to the next attempt."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from sqlalchemy import select, update

from control_domain.tables.audit import AuditEntry
from control_domain.tables.notifications import NotificationChannel
from notifications.channels.interface import DeliveryFailed
from notifications.delivery import send_message as sending
from notifications.message import Message
from tests.support.deliveries import Answer, Deliveries

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

_DOWN = DeliveryFailed("Connection refused.")
_HOUR = timedelta(hours=1)


def _refuse(*failures: Exception) -> Answer:
    """Raise these errors, one for each request, and accept later requests."""
    left = list(failures)

    async def answer(message: Message) -> None:
        if left:
            raise left.pop(0)

    return answer


async def _drain(deliveries: Deliveries, message_id: str) -> list[datetime]:
    """Jump from attempt to attempt until the message is no longer pending; return the times of the attempts."""
    times = []
    while (row := await deliveries.read(message_id)).status == "pending":
        deliveries.now = max(deliveries.now, row.next_attempt_at)
        times.append(deliveries.now)
        assert await deliveries.deliver() > 0
    return times


def _seconds(times: Sequence[datetime]) -> list[int]:
    return [round((time - times[0]).total_seconds()) for time in times]


async def test_a_receiver_that_is_down_for_an_hour(deliveries: Deliveries) -> None:
    channel = await deliveries.add_channel("hook")
    start = deliveries.now

    async def answer(message: Message) -> None:
        if deliveries.now < start + _HOUR:
            raise _DOWN

    deliveries.receivers.answers["hook"] = answer
    messages = [await deliveries.write(channel, group=1) for _ in range(3)]
    times = await _drain(deliveries, messages[0])
    # Jitter lengthens each pause by up to a tenth.
    expected = [0, 5, 35, 155, 755, 2555, 6155]
    assert all(a <= b <= 1.1 * a for a, b in zip(expected, _seconds(times), strict=True))
    attempts = await deliveries.read_attempts(messages[0])
    assert [attempt.outcome for attempt in attempts] == ["retry"] * 6 + ["sent"]
    assert [attempt.at for attempt in attempts] == times
    assert {attempt.error for attempt in attempts[:-1]} == {"Connection refused."}
    # The other messages waited for this one, and follow immediately, in order.
    assert await deliveries.read_statuses() == dict.fromkeys(messages, "sent")
    assert deliveries.receivers.of("hook") == [messages[0]] * 7 + messages[1:]
    row = await deliveries.read(messages[0])
    assert (row.attempts, row.sent_at, row.last_error, row.leased_until) == (7, times[-1], None, None)
    found = await deliveries.read_channel(channel)
    assert (found.failing_since, found.last_error) == (None, None)


async def test_a_receiver_that_stays_down(deliveries: Deliveries) -> None:
    channel = await deliveries.add_channel("hook")
    deliveries.receivers.answers["hook"] = _refuse(*[_DOWN] * 200)
    start = deliveries.now
    written = start - timedelta(days=2.5)
    message = await deliveries.write(channel, created_at=written)
    times = await _drain(deliveries, message)
    assert times[-1] - written <= timedelta(days=3) < times[-1] - written + 1.1 * _HOUR
    row = await deliveries.read(message)
    assert row.status == "failed"
    assert row.last_error == "Connection refused. No retry follows: they end after 3 days."
    assert (await deliveries.read_attempts(message))[-1].outcome == "failed"
    found = await deliveries.read_channel(channel)
    assert found.enabled and found.failing_since == start and found.last_error == row.last_error
    # A person requests it again: three days from then on, beginning with the shortest pause.
    await deliveries.deliver(after=86_400)
    await deliveries.change(
        message, status="pending", attempts=0, requested_at=deliveries.now, next_attempt_at=deliveries.now
    )
    await deliveries.deliver()
    await deliveries.deliver(after=6)
    attempts = await deliveries.read_attempts(message)
    assert [(attempt.outcome, attempt.requested) for attempt in attempts[-3:]] == [
        ("failed", False),
        ("retry", True),
        ("retry", False),
    ]


async def test_waiting_messages_are_sent_once_a_receiver_is_back(deliveries: Deliveries) -> None:
    channel = await deliveries.add_channel("hook")
    deliveries.receivers.answers["hook"] = _refuse(*[_DOWN] * 10)
    messages = [await deliveries.write(channel) for _ in range(2)]
    for _ in range(5):
        await deliveries.deliver(after=1200)
    # A new message is accepted, so the others need not wait for up to an hour.
    messages.append(await deliveries.write(channel))
    await deliveries.deliver(after=1)
    assert await deliveries.read_statuses() == dict.fromkeys(messages, "sent")


async def test_too_many_requests(deliveries: Deliveries) -> None:
    channel = await deliveries.add_channel("hook")
    busy = DeliveryFailed("The receiver answered 429.", retry_after=90)
    deliveries.receivers.answers["hook"] = _refuse(busy)
    first, second = [await deliveries.write(channel) for _ in range(2)]
    assert await deliveries.deliver() == 1
    # The pause is for the receiver, not for the message.
    assert await deliveries.deliver(after=89) == 0
    assert await deliveries.deliver(after=11) == 2
    assert await deliveries.read_statuses() == {first: "sent", second: "sent"}


async def test_a_pause_ends_with_the_first_message_that_is_accepted(deliveries: Deliveries) -> None:
    """This includes messages without an attempt."""
    channel = await deliveries.add_channel("hook")
    deliveries.receivers.answers["hook"] = _refuse(DeliveryFailed("Busy.", retry_after=3600))
    paused = [await deliveries.write(channel) for _ in range(2)]
    assert await deliveries.deliver() == 1
    new = await deliveries.write(channel)
    assert await deliveries.deliver(after=60) == 3
    assert await deliveries.read_statuses() == dict.fromkeys([*paused, new], "sent")


async def test_a_clock_that_was_a_day_ahead(deliveries: Deliveries) -> None:
    channel = await deliveries.add_channel("hook")
    day = timedelta(days=1)
    late = await deliveries.write(
        channel, created_at=deliveries.now + day, next_attempt_at=deliveries.now + day
    )
    # The longest pause that a receiver can request.
    paused = await deliveries.write(channel, next_attempt_at=deliveries.now + timedelta(minutes=66))
    await deliveries.deliver()
    assert await deliveries.read_statuses() == {late: "sent", paused: "pending"}


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (DeliveryFailed("The receiver answered 400.", is_permanent=True), "The receiver answered 400."),
        (
            DeliveryFailed("The receiver answered 413.", is_permanent=True, retry_after=5),
            "The receiver answered 413.",
        ),
    ],
)
async def test_a_permanent_failure(deliveries: Deliveries, failure: Exception, error: str) -> None:
    channel = await deliveries.add_channel("hook")
    deliveries.receivers.answers["hook"] = _refuse(failure)
    first, second = [await deliveries.write(channel, group=1) for _ in range(2)]
    assert await deliveries.deliver() == 2
    assert await deliveries.read_statuses() == {first: "failed", second: "sent"}
    assert (await deliveries.read(first)).last_error == error
    assert [attempt.outcome for attempt in await deliveries.read_attempts(first)] == ["failed"]


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (DeliveryFailed("The certificate has expired."), "The certificate has expired."),
        (
            RuntimeError("hook?token=secret"),
            "Sending failed inside Pharos. See the log of the control plane for the reason.",
        ),
    ],
)
async def test_a_failure_that_may_pass(deliveries: Deliveries, failure: Exception, error: str) -> None:
    channel = await deliveries.add_channel("hook")
    deliveries.receivers.answers["hook"] = _refuse(failure)
    message = await deliveries.write(channel)
    await deliveries.deliver()
    row = await deliveries.read(message)
    assert (row.status, row.attempts, row.last_error, row.leased_until) == ("pending", 1, error, None)
    found = await deliveries.read_channel(channel)
    assert (found.failing_since, found.last_error) == (deliveries.now, error)
    assert await deliveries.deliver(after=6) == 1
    assert await deliveries.read_statuses() == {message: "sent"}


async def test_a_receiver_that_never_answers(deliveries: Deliveries, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "_SEND_SECONDS", 0.01)

    async def hang(message: Message) -> None:
        await asyncio.Event().wait()

    deliveries.receivers.answers["hook"] = hang
    message = await deliveries.write(await deliveries.add_channel("hook"))
    await deliveries.deliver()
    assert (await deliveries.read(message)).last_error == "The receiver did not answer within 0 s."


async def test_receiver_that_no_longer_exists(deliveries: Deliveries) -> None:
    channel, other = await deliveries.add_channel("hook"), await deliveries.add_channel("other")
    deliveries.receivers.answers["hook"] = _refuse(DeliveryFailed("The receiver answered 410.", is_gone=True))
    first, second, third = [await deliveries.write(channel, group=1 + number // 2) for number in range(3)]
    elsewhere = await deliveries.write(other)
    await deliveries.deliver()
    assert await deliveries.read_statuses() == {
        first: "failed",
        second: "canceled",
        third: "canceled",
        elsewhere: "sent",
    }
    reason = "The channel was turned off: The receiver answered 410."
    assert (await deliveries.read(third)).last_error == reason
    found = await deliveries.read_channel(channel)
    assert (found.enabled, found.last_error) == (False, "The receiver answered 410.")
    async with deliveries.sessions() as session:
        (entry,) = await session.scalars(select(AuditEntry))
    assert (entry.account_id, entry.action, entry.subject, entry.source) == (
        deliveries.acme.account.id,
        "notification-channel.turn-off",
        "notification-channel chn_hook",
        "notifications",
    )


async def test_channel_corrected_while_its_receiver_did_not_exist(deliveries: Deliveries) -> None:
    channel = await deliveries.add_channel("hook")

    async def answer(message: Message) -> None:
        async with deliveries.sessions() as session, session.begin():
            await session.execute(update(NotificationChannel).values(settings='{"url": "new"}'))
        raise DeliveryFailed("The receiver answered 410.", is_gone=True)

    deliveries.receivers.answers["hook"] = answer
    first, second = [await deliveries.write(channel) for _ in range(2)]
    await deliveries.deliver()
    assert await deliveries.read_statuses() == {first: "failed", second: "sent"}
    assert (await deliveries.read_channel(channel)).enabled


async def test_secrets_that_cannot_be_opened(deliveries: Deliveries) -> None:
    channel = await deliveries.add_channel("hook", secrets={"authorization": "Bearer abc"})
    message = await deliveries.write(channel)

    async def change_key(key_id: str | None) -> None:
        async with deliveries.sessions() as session, session.begin():
            await session.execute(update(NotificationChannel).values(sealing_key_id=key_id))

    await change_key("0000")
    await deliveries.deliver()
    row = await deliveries.read(message)
    assert row.status == "pending" and row.last_error is not None
    assert "sealed under the key 0000, which is not in PHAROS_VARIABLES_KEY" in row.last_error
    assert deliveries.receivers.requests == []
    await change_key(channel.sealing_key_id)
    await deliveries.deliver(after=6)
    assert await deliveries.read_statuses() == {message: "sent"}
    assert deliveries.receivers.destinations["hook"].secrets == {"authorization": "Bearer abc"}


async def test_message_that_this_version_cannot_send(deliveries: Deliveries) -> None:
    channel = await deliveries.add_channel("hook")
    async with deliveries.sessions() as session, session.begin():
        await session.execute(update(NotificationChannel).values(type="pigeon"))
    unknown, unreadable = (
        await deliveries.write(channel),
        await deliveries.write(channel, content='{"id": 1}'),
    )
    await deliveries.deliver()
    assert await deliveries.read_statuses() == {unknown: "pending", unreadable: "failed"}
    assert (
        await deliveries.read(unknown)
    ).last_error == "This installation has no channels of the type pigeon."
