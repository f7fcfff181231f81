"""Sends messages as signed webhooks, as specified by Standard Webhooks (https://www.standardwebhooks.com), version
1."""

import base64
import hashlib
import hmac

import msgspec

from control_domain.notifications.channel_types import WebhookSecrets, WebhookSettings, read_settings
from control_domain.notifications.destination_formats import read_signing_secrets
from notifications.channels.interface import Destination
from notifications.channels.outbound_http.client import OutboundHttp
from notifications.channels.outbound_http.replies import check_reply
from notifications.message import Message
from notifications.render.bound import bound_message


class WebhookChannel:
    """Posts `{"type": …, "timestamp": …, "data": the message}`, signed with each secret of the channel."""

    def __init__(self, http: OutboundHttp) -> None:
        self._http = http

    async def send(self, message: Message, destination: Destination) -> None:
        """Send the message. Retry a 4xx response that is not about the content: while a receiver is being deployed,
        its gateway may respond 401, 403 or 404."""
        settings = read_settings(WebhookSettings, destination.settings)
        secrets = read_settings(WebhookSecrets, destination.secrets)
        body = encode_event(message)
        timestamp = str(int(self._http.clock().timestamp()))
        headers = {
            "webhook-id": message.id,
            "webhook-timestamp": timestamp,
            "webhook-signature": sign(secrets.signing_secret, message.id, timestamp, body),
        }
        if secrets.authorization:
            headers["Authorization"] = secrets.authorization
        reply = await self._http.post(settings.url, body, headers)
        check_reply(reply, name=reply.host, secrets=destination.secrets.values(), retry_client_errors=True)


def encode_event(message: Message) -> bytes:
    """Return the body of the request. `type` is `alert.firing`, `alert.resolved` or `alert.info`."""
    return msgspec.json.encode(
        {"type": f"alert.{message.state}", "timestamp": message.created_at, "data": bound_message(message)}
    )


def sign(signing_secret: str, message_id: str, timestamp: str, body: bytes) -> str:
    """Return the value of the webhook-signature header: one `v1,…` for each secret, so that a receiver can replace
    its secret."""
    content = f"{message_id}.{timestamp}.".encode() + body
    return " ".join(
        "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
        for key in read_signing_secrets(signing_secret)
    )
