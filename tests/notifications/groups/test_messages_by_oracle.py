"""Any sequence of changes, silences, acknowledgements and quiet hours yields exactly the messages of the oracle."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from control_domain.database.engine import open_engine, open_sessions
from tests.support.databases import migrated_database
from tests.support.notification_oracle import START, Oracle, Recipient, Sent
from tests.support.notified import Notified, make_notified

_SUBJECTS = st.sampled_from(["1", "2", "3"])
_STEPS = st.one_of(
    st.tuples(
        st.just("fire"), st.sampled_from(["heartbeat.late", "heartbeat.down", "queue.size"]), _SUBJECTS
    ),
    st.tuples(st.just("fire"), st.just("heartbeat.down"), _SUBJECTS),
    st.tuples(st.just("resolve"), st.sampled_from(["heartbeat", "queue"]), _SUBJECTS),
    st.tuples(st.just("happen"), st.just("preview.ready"), _SUBJECTS),
    st.tuples(st.just("acknowledge"), st.just("heartbeat"), _SUBJECTS),
    st.tuples(
        st.just("silence"),
        st.sampled_from([None, ["heartbeat"], ["heartbeat.late", "preview"], ["queue.size"]]),
        st.sampled_from([60, 600, 7200, 50_000]),
    ),
    st.tuples(st.just("silence incident"), _SUBJECTS, st.sampled_from([120, 7200])),
    st.tuples(st.just("wait"), st.sampled_from([10, 20, 30, 60, 270, 300, 3600, 20_000])),
    st.tuples(st.just("wait"), st.sampled_from([10, 30, 60, 300])),
    # Daily reminders.
    st.just(("wait", 100_000)),
    # More than a message lists.
    st.tuples(st.just("fire many"), st.sampled_from([9, 11, 14])),
)
_RECIPIENTS = [
    Recipient("all", ["heartbeat", "queue", "preview.ready"], None),
    Recipient("nightly", ["heartbeat.down", "queue.size"], (22, 7)),
    Recipient("once", ["heartbeat.late", "preview"], (22, 7), reminders=False),
]


@pytest.fixture(scope="module")
async def notified(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Notified]:
    folder: Path = tmp_path_factory.mktemp("oracle")
    async with migrated_database("sqlite", request, folder) as url:
        engine = open_engine(url)
        found = await make_notified(open_sessions(engine), START)
        for recipient in _RECIPIENTS:
            quiet = {"from": "22:00", "to": "07:00", "timezone": "UTC"} if recipient.quiet else None
            channel = await found.add_channel(recipient.name, quiet)
            await found.add_rule(
                recipient.name,
                [f"channel {channel}"],
                kinds=recipient.kinds,
                reminders=recipient.reminders,
            )
        yield found
        await engine.dispose()


@given(steps=st.lists(_STEPS, min_size=1, max_size=25))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
async def test_any_sequence_yields_exactly_the_messages_of_the_oracle(
    notified: Notified, steps: list[Any]
) -> None:
    await notified.forget()
    notified.now = START
    oracle = Oracle(_RECIPIENTS)
    for step in [*steps, ("wait", 4000)]:
        await _take(notified, oracle, step)
    assert await _read_sent(notified) == sorted(oracle.sent, key=_order)


async def _take(notified: Notified, oracle: Oracle, step: tuple[Any, ...]) -> None:
    match step:
        case ("fire", kind, subject):
            oracle.fire(kind, subject)
            await notified.emit(kind, subject, "firing")
        case ("fire many", count):
            for number in range(count):
                oracle.fire("queue.size", f"many {number}")
                await notified.emit("queue.size", f"many {number}", "firing")
        case ("resolve", family, subject):
            oracle.resolve(family, subject)
            await notified.emit("queue.size" if family == "queue" else "heartbeat.down", subject, "resolved")
        case ("happen", kind, subject):
            oracle.happen(kind, subject)
            await notified.emit(kind, subject, "info")
        case ("acknowledge", family, subject):
            oracle.acknowledge(family, subject)
            await notified.acknowledge(family, subject)
        case ("silence", kinds, seconds):
            oracle.silence(kinds, seconds)
            await notified.silence(kinds, seconds)
        case ("silence incident", subject, seconds):
            if (incident := oracle.open_incidents.get(("heartbeat", subject))) is not None:
                oracle.silence(None, seconds, incident)
                await notified.silence(None, seconds, subject)
        case ("wait", seconds):
            oracle.advance(seconds)
            await notified.advance(seconds)
    oracle.look()


async def _read_sent(notified: Notified) -> list[Sent]:
    subjects = await notified.subjects()
    return sorted(
        (
            Sent(
                round((row.created_at - START) / timedelta(seconds=1)),
                row.recipient,
                message.family,
                message.reason,
                tuple(sorted((subjects[each.id], each.kind, each.state) for each in message.incidents)),
                message.firing,
                message.resolved,
                message.more,
            )
            for row, message in await notified.messages()
        ),
        key=_order,
    )


def _order(sent: Sent) -> tuple[int, str, str]:
    return sent.at, sent.recipient, sent.family
