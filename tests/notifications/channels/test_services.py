"""Requests to the services, and the meaning of their responses."""

import ipaddress
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from aiohttp import web

from notifications.channels.discord import DiscordChannel
from notifications.channels.interface import Channel, DeliveryFailed, Destination
from notifications.channels.ntfy import NtfyChannel
from notifications.channels.outbound_http.client import OutboundHttp, open_outbound_http
from notifications.channels.pagerduty import PagerDutyChannel
from notifications.channels.slack import SlackChannel
from notifications.channels.teams import TeamsChannel
from notifications.channels.telegram import TelegramChannel
from notifications.message import Message
from tests.notifications.channels.receiver import NO_TLS, Receiver, run_receiver
from tests.notifications.sample_messages import make_message, make_resolved, make_test_message

_TOKEN = "123456:AAAAAAAAAAAAAAAAAAAAAAAAAAAA"
_KEY = "0123456789abcdef0123456789abcdef"


def _make(name: str, http: OutboundHttp, receiver: Receiver) -> tuple[Channel, Destination]:
    url = receiver.url("/secret-path-1")
    root = receiver.url("/")
    match name:
        case "slack":
            return SlackChannel(http), Destination(name, {}, {"url": url})
        case "discord":
            return DiscordChannel(http), Destination(name, {}, {"url": url})
        case "teams":
            return TeamsChannel(http), Destination(name, {}, {"url": url})
        case "telegram":
            settings = {"chat_id": "-1001", "topic_id": "7", "api_url": root}
            return TelegramChannel(http), Destination(name, settings, {"bot_token": _TOKEN})
        case "ntfy":
            return NtfyChannel(http), Destination(
                name, {"server": root}, {"topic": "secret-topic", "token": "tk_abcdef"}
            )
        case _:
            return PagerDutyChannel(http), Destination(name, {"url": url}, {"routing_key": _KEY})


_SECRETS = {
    "slack": ["secret-path-1"],
    "discord": ["secret-path-1"],
    "teams": ["secret-path-1"],
    "telegram": [_TOKEN],
    "ntfy": ["secret-topic", "tk_abcdef"],
    "pagerduty": [_KEY],
}
_SERVICES = tuple(_SECRETS)


async def _send(name: str, receiver: Receiver, message: Message) -> None:
    async with open_outbound_http(allow_private=True, tls=NO_TLS) as http:
        channel, destination = _make(name, http, receiver)
        await channel.send(message, destination)


async def _read(name: str, *messages: Message) -> list[tuple[str, dict[str, str], Any]]:
    """Return path, headers and JSON of the requests for the messages."""
    async with run_receiver() as receiver:
        for message in messages:
            await _send(name, receiver, message)
    return [(each.path, each.headers, msgspec.json.decode(each.body)) for each in receiver.received]


async def _fail(name: str, *answers: web.Response) -> DeliveryFailed:
    async with run_receiver() as receiver:
        receiver.answers += answers
        with pytest.raises(DeliveryFailed) as caught:
            await _send(name, receiver, make_message())
    return caught.value


@pytest.mark.parametrize("name", _SERVICES)
async def test_failure_and_its_resolution_arrive(name: str) -> None:
    requests = await _read(name, make_test_message(), make_message(), make_resolved())
    texts = [str(body) for _, _, body in requests]
    assert "is down" in texts[-2]
    assert texts[-1] != texts[-2]
    assert all(headers["content-type"] == "application/json" for _, headers, _ in requests)


@pytest.mark.parametrize("name", _SERVICES)
async def test_answers_are_classified_and_repeat_no_secret(name: str) -> None:
    echo = f"bad /secret-path-1 {_TOKEN} {_KEY} secret-topic tk_abcdef"
    for status, is_permanent, is_gone in (
        (400, True, False),
        (403, True, False),
        (404, True, False),
        (410, True, True),
        (302, True, False),
        (408, False, False),
        (429, False, False),
        (500, False, False),
        (503, False, False),
    ):
        error = await _fail(name, web.Response(status=status, text=echo, headers={"Retry-After": "17"}))
        assert (error.is_permanent, error.is_gone) == (is_permanent, is_gone), status
        assert error.retry_after == (None if is_permanent else 17)
        for secret in _SECRETS[name]:
            assert secret not in str(error)


async def test_discord_rate_limit_and_deleted_webhook() -> None:
    limited = await _fail(
        "discord",
        web.json_response({"message": "You are being rate limited.", "retry_after": 0.65}, status=429),
    )
    assert (limited.is_permanent, limited.retry_after) == (False, 0.65)
    deleted = await _fail(
        "discord", web.json_response({"message": "Unknown Webhook", "code": 10015}, status=404)
    )
    assert deleted.is_gone
    assert not (await _fail("discord", web.Response(status=404, text="not JSON"))).is_gone


async def test_telegram_names_bot_chat_and_topic() -> None:
    ((path, _, body),) = await _read("telegram", make_message())
    assert path == f"/bot{_TOKEN}/sendMessage"
    assert (body["chat_id"], body["message_thread_id"]) == ("-1001", 7)


async def test_telegram_rate_limit_and_migrated_group() -> None:
    limited = await _fail(
        "telegram",
        web.json_response(
            {
                "ok": False,
                "error_code": 429,
                "description": "Too Many Requests",
                "parameters": {"retry_after": 9},
            },
            status=429,
        ),
    )
    assert (limited.is_permanent, limited.retry_after) == (False, 9)
    moved = await _fail(
        "telegram",
        web.json_response({"ok": False, "parameters": {"migrate_to_chat_id": -1002}}, status=400),
    )
    assert (moved.is_permanent, str(moved)) == (True, "The group became a supergroup. Set chat_id to -1002.")


async def test_ntfy_gets_topic_token_and_priority() -> None:
    requests = await _read("ntfy", make_message(), make_resolved())
    assert [path for path, _, _ in requests] == ["/", "/"]
    assert {headers["authorization"] for _, headers, _ in requests} == {"Bearer tk_abcdef"}
    assert [(body["topic"], body["priority"], body["tags"]) for _, _, body in requests] == [
        ("secret-topic", 5, ["rotating_light"]),
        ("secret-topic", 3, ["white_check_mark"]),
    ]


async def test_pagerduty_opens_and_resolves_the_alert_of_the_group() -> None:
    requests = await _read("pagerduty", make_message(), make_resolved(), make_test_message())
    events = [body for _, _, body in requests]
    assert {event["routing_key"] for event in events} == {_KEY}
    assert {event["dedup_key"] for event in events} == {"grp_01KAZ7QG"}
    # A test leaves no open alert.
    assert [event["event_action"] for event in events] == ["trigger", "resolve", "trigger", "resolve"]
    assert events[0]["payload"]["custom_details"]["incidents"][0]["facts"]["Missed runs"] == "2 (threshold 1)"


@pytest.mark.parametrize("name", _SERVICES)
async def test_private_addresses_are_refused_for_each_service(name: str) -> None:
    async def resolve(_: str) -> Sequence[ipaddress.IPv4Address]:
        return [ipaddress.IPv4Address("127.0.0.1")]

    async with (
        run_receiver() as receiver,
        open_outbound_http(allow_private=False, lookup=resolve, tls=NO_TLS) as http,
    ):
        channel, destination = _make(name, http, receiver)
        with pytest.raises(DeliveryFailed, match="PHAROS_NOTIFICATION_PRIVATE_ADDRESSES"):
            await channel.send(make_message(), destination)
    assert receiver.received == []
