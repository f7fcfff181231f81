"""Correctly signed deliveries have a rate limit, and their stored bodies a quota."""

import pytest

from control_api.limits import webhook_limits
from control_api.limits.webhook_limits import AcceptedDeliveries
from control_domain.webhooks import deliveries
from control_domain.webhooks.deliveries import read_body, trim_bodies
from pipeline_contracts.errors import TooManyRequests
from pipeline_contracts.rate_limits import RateLimit
from tests.support.webhooks import WebhookRepository, encode_request

_PING = encode_request("ping", {"zen": "Keep it logically awesome."})


async def test_an_account_over_its_rate_gets_retry_after(
    github: WebhookRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_limits, "DELIVERIES", RateLimit(0.001, 2))
    responses = [await github.deliver_status(_PING) for _ in range(2)]
    assert responses == [(200, "pong")] * 2
    answer = await github.deliver(_PING)
    assert answer.problem == (429, "too-many-requests")
    assert int(answer.headers["Retry-After"]) > 900
    assert len(await github.deliveries()) == 2


def test_each_account_has_its_own_rate() -> None:
    now = 0.0
    taken = AcceptedDeliveries(lambda: now)
    for _ in range(1000):
        taken.take("account 1")
    with pytest.raises(TooManyRequests, match="5 times a second"):
        taken.take("account 1")
    taken.take("account 2")
    now = 0.2
    taken.take("account 1")


def test_bodies_are_trimmed_once_per_16_mib() -> None:
    taken = AcceptedDeliveries()
    mib = 2**20
    due = [taken.is_trim_due("repository 1", 5 * mib) for _ in range(9)]
    assert due == [True, False, False, True, False, False, True, False, False]
    assert taken.is_trim_due("repository 2", 1)


@pytest.mark.both_databases
async def test_trimmed_deliveries_are_still_duplicates(
    github: WebhookRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        await github.deliver_status(_PING, f"delivery {number}")
    size = len((await github.deliveries())[0].body)
    monkeypatch.setattr(deliveries, "MAX_STORED_BYTES", 2 * size)
    async with github.platform.sessions() as session, session.begin():
        await trim_bodies(session, None)
        await trim_bodies(session, github.repository_id)
    kept = await github.deliveries()
    assert [read_body(one) is None for one in kept] == [True, True, False, False]
    assert [one.headers == "{}" for one in kept] == [True, True, False, False]
    assert await github.deliver_status(_PING, "delivery 0") == (200, "duplicate")


async def test_receiving_deliveries_trims_old_bodies(
    github: WebhookRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "MAX_STORED_BYTES", 1)
    monkeypatch.setattr(webhook_limits, "_TRIM_BYTES", 0)
    for number in range(3):
        await github.deliver_status(_PING, f"delivery {number}")
    assert [read_body(one) is None for one in await github.deliveries()] == [True, True, False]
