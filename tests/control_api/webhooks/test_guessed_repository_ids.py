"""Clients that guess IDs of repositories with webhooks are refused without a database query."""

import pytest

from pipeline_contracts.client_address import parse_trusted_proxies
from tests.support.webhooks import WebhookRepository, push, sign

STRANGER, HOST = "203.0.113.9", "198.51.100.7"


async def _status(webhook: WebhookRepository, number: int, address: str) -> int:
    sent = push(webhook.kind)
    headers = {
        **sign(webhook.kind, webhook.secret, sent),
        "X-Forwarded-For": address,
        "Content-Type": "application/json",
    }
    given = {name: value for name, value in headers.items() if value is not None}
    url = f"{webhook.platform.url}/api/repositories/{number}/webhook"
    async with webhook.platform.http.post(url, data=sent.body, headers=given) as response:
        return response.status


async def test_a_client_is_limited_after_a_hundred_unknown_ids(
    github: WebhookRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = github.platform.app.state
    monkeypatch.setattr(state, "client_addresses", parse_trusted_proxies("127.0.0.1"))
    # No failure expires during the test, even on a slow machine.
    monkeypatch.setattr(state.webhook_bodies.senders, "_clock", lambda: 0.0)
    assert await _status(github, github.repository_id, HOST) == 202
    for address in (STRANGER, HOST):
        assert [await _status(github, 999_999, address) for _ in range(100)] == [404] * 100
        assert await _status(github, 999_999, address) == 503
    assert await _status(github, github.repository_id, STRANGER) == 503
    # A verified sender of this webhook is still accepted.
    assert await _status(github, github.repository_id, HOST) == 202


async def test_loopback_addresses_have_the_same_limit(
    github: WebhookRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deployed applications connect from loopback too; a trusted proxy there names its clients."""
    state = github.platform.app.state
    monkeypatch.setattr(state.webhook_bodies.senders, "_clock", lambda: 0.0)
    assert [await _status(github, 999_999, HOST) for _ in range(101)] == [404] * 100 + [503]
    monkeypatch.setattr(state, "client_addresses", parse_trusted_proxies("127.0.0.1"))
    assert await _status(github, 999_999, HOST) == 404
