"""How much is held of bodies that have proved nothing yet."""

import pytest
from sqlalchemy import update

from control_api.webhooks.body_room import BodyRoom
from control_api.webhooks.tables import SealedWebhookSecret
from pipeline_contracts.errors import Unavailable
from tests.support.webhooks import Hooked, push, sign


def test_what_is_over_all_bodies_limit_is_turned_away() -> None:
    room = BodyRoom(10)
    with room.reading() as first, room.reading() as second:
        first.hold(6)
        second.hold(4)
        with pytest.raises(Unavailable):
            second.hold(1)


def test_room_is_free_again_behind_each_body() -> None:
    room = BodyRoom(10)
    for _ in range(3):
        with room.reading() as reading:
            reading.hold(10)
        with pytest.raises(Unavailable), room.reading() as reading:
            reading.hold(4)
            reading.hold(7)


async def _status(hooked: Hooked) -> int:
    """Of a good push. It may be a 503: the platform's own call would take that for a fault."""
    sent = push(hooked.kind)
    headers = {name: str(value) for name, value in sign(hooked.kind, hooked.secret, sent).items()}
    address = f"{hooked.platform.url}/api/repositories/{hooked.repository_id}/webhook"
    async with hooked.platform.http.post(
        address, data=sent.body, headers={**headers, "Content-Type": "application/json"}
    ) as answer:
        return answer.status


async def test_a_webhook_that_finds_no_room_is_to_come_again(github: Hooked) -> None:
    github.platform.app.state.webhook_room = BodyRoom(10)
    assert await _status(github) == 503
    github.platform.app.state.webhook_room = BodyRoom()
    assert await _status(github) == 202


async def test_a_secret_that_cannot_be_opened_is_no_bad_signature(github: Hooked) -> None:
    async with github.platform.sessions() as session, session.begin():
        await session.execute(update(SealedWebhookSecret).values(key_id="unknown"))
    assert await _status(github) == 503
