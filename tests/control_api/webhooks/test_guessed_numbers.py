"""Who guesses the numbers of repositories with webhooks is refused before the database is asked."""

import pytest

from pipeline_contracts.client_address import parse_trusted_proxies
from tests.support.webhooks import Hooked, push, sign

STRANGER, HOST = "203.0.113.9", "198.51.100.7"


async def _status(hooked: Hooked, number: int, address: str) -> int:
    sent = push(hooked.kind)
    headers = {
        **sign(hooked.kind, hooked.secret, sent),
        "X-Forwarded-For": address,
        "Content-Type": "application/json",
    }
    given = {name: value for name, value in headers.items() if value is not None}
    url = f"{hooked.platform.url}/api/repositories/{number}/webhook"
    async with hooked.platform.http.post(url, data=sent.body, headers=given) as response:
        return response.status


async def test_after_a_hundred_numbers_without_a_webhook(
    github: Hooked, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = github.platform.app.state
    monkeypatch.setattr(state, "client_addresses", parse_trusted_proxies("127.0.0.1"))
    # However slow this machine is, no failure is forgiven meanwhile.
    monkeypatch.setattr(state.webhook_bodies.senders, "_clock", lambda: 0.0)
    assert await _status(github, github.repository_id, HOST) == 202
    for address in (STRANGER, HOST):
        assert [await _status(github, 999_999, address) for _ in range(100)] == [404] * 100
        assert await _status(github, 999_999, address) == 503
    assert await _status(github, github.repository_id, STRANGER) == 503
    # A sender that has proved itself to this webhook goes on.
    assert await _status(github, github.repository_id, HOST) == 202


async def test_an_address_of_this_machine_has_the_same_limit(
    github: Hooked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deployed code has an address of this machine too; a trusted proxy there names its clients."""
    state = github.platform.app.state
    monkeypatch.setattr(state.webhook_bodies.senders, "_clock", lambda: 0.0)
    assert [await _status(github, 999_999, HOST) for _ in range(101)] == [404] * 100 + [503]
    monkeypatch.setattr(state, "client_addresses", parse_trusted_proxies("127.0.0.1"))
    assert await _status(github, 999_999, HOST) == 404
