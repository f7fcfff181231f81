"""Webhooks, verified by the library that receivers use."""

import datetime as dt

import msgspec
import pytest
import standardwebhooks
from aiohttp import web

from control_domain.notifications.channel_types import new_signing_secret
from notifications.channels.interface import DeliveryFailed, Destination
from notifications.channels.outbound_http.client import open_outbound_http
from notifications.channels.webhook import WebhookChannel
from notifications.message import Message, decode_message
from notifications.render.bound import bound_message
from tests.notifications.channels.receiver import NO_TLS, Receiver, run_receiver
from tests.notifications.sample_messages import make_largest_message, make_message, make_resolved


async def _send(message: Message, receiver: Receiver, **secrets: str) -> None:
    async with open_outbound_http(allow_private=True, tls=NO_TLS) as http:
        await WebhookChannel(http).send(message, Destination("webhook", {"url": receiver.url()}, secrets))


async def test_receivers_verify_the_signature_and_read_the_message() -> None:
    secret = new_signing_secret()
    async with run_receiver() as receiver:
        for message in (make_message(), make_resolved(), make_largest_message()):
            await _send(message, receiver, signing_secret=secret)
            request = receiver.received.pop()
            event = standardwebhooks.Webhook(secret).verify(request.body, request.headers)
            assert request.headers["webhook-id"] == message.id
            assert request.headers["content-type"] == "application/json"
            assert (event["type"], event["timestamp"]) == (f"alert.{message.state}", message.created_at)
            assert decode_message(msgspec.json.encode(event["data"])) == bound_message(message)
            assert len(request.body) < 300_000
    assert bound_message(make_message()) == make_message()


async def test_body_has_ids_for_deduplication_and_closing() -> None:
    async with run_receiver() as receiver:
        for message in (make_message(), make_resolved()):
            await _send(message, receiver, signing_secret=new_signing_secret())
        opened, closed = (
            msgspec.json.decode(request.body)["data"]["incidents"][0] for request in receiver.received
        )
    assert (opened["id"], opened["state"], closed["state"]) == (closed["id"], "firing", "resolved")
    assert closed["labels"]["heartbeat"] == "nightly-backup"
    assert closed["figures"] == [{"name": "missed runs", "value": 2.0, "unit": "", "threshold": 1.0}]


async def test_both_secrets_of_a_rotation_verify_and_others_do_not() -> None:
    new, old = new_signing_secret(), new_signing_secret()
    async with run_receiver() as receiver:
        await _send(make_message(), receiver, signing_secret=f"{new} {old}")
        request = receiver.received[0]
    assert len(request.headers["webhook-signature"].split(" ")) == 2
    for secret in (new, old):
        standardwebhooks.Webhook(secret).verify(request.body, request.headers)
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(new_signing_secret()).verify(request.body, request.headers)
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(new).verify(request.body + b" ", request.headers)


async def test_attempts_have_one_id_and_each_its_own_time() -> None:
    times = [dt.datetime(2026, 11, 26, 3, minute, tzinfo=dt.UTC) for minute in range(2)]
    clock = iter([times[0]] * 2 + [times[1]] * 2).__next__
    destination_secret = {"signing_secret": new_signing_secret()}
    async with (
        run_receiver() as receiver,
        open_outbound_http(allow_private=True, clock=clock, tls=NO_TLS) as http,
    ):
        for _ in times:
            await WebhookChannel(http).send(
                make_message(), Destination("webhook", {"url": receiver.url()}, destination_secret)
            )
    first, second = (request.headers for request in receiver.received)
    assert first["webhook-id"] == second["webhook-id"]
    assert [int(first["webhook-timestamp"]), int(second["webhook-timestamp"])] == [
        int(time.timestamp()) for time in times
    ]


async def test_authorization_is_sent_if_it_is_set() -> None:
    secret = new_signing_secret()
    async with run_receiver() as receiver:
        await _send(make_message(), receiver, signing_secret=secret)
        await _send(make_message(), receiver, signing_secret=secret, authorization="Bearer abc123")
    assert [request.headers.get("authorization") for request in receiver.received] == [None, "Bearer abc123"]


async def test_failures_carry_the_decision_and_no_secret() -> None:
    secret = new_signing_secret()
    async with run_receiver() as receiver:
        for status, expected in {404: (False, False), 410: (True, True), 302: (True, False)}.items():
            receiver.answers.append(web.Response(status=status, text=f"sent with {secret} and token-123"))
            with pytest.raises(DeliveryFailed) as caught:
                await _send(make_message(), receiver, signing_secret=secret, authorization="token-123")
            error = caught.value
            assert (error.is_permanent, error.is_gone) == expected
            assert secret not in str(error)
            assert "token-123" not in str(error)
