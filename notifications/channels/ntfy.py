"""Sends messages to ntfy as JSON (https://docs.ntfy.sh/publish/#publish-as-json)."""

from collections.abc import Iterator
from typing import Any

import msgspec

from control_domain.notifications.channel_types import NtfySecrets, NtfySettings, read_settings
from notifications.channels.interface import Destination
from notifications.channels.markup import count_bytes, cut, fit_lines, shrink
from notifications.channels.outbound_http.client import OutboundHttp
from notifications.channels.outbound_http.replies import check_reply
from notifications.message import Message
from notifications.render.view import MessageView, Tone, view_message

_MAX_TITLE = 250
_MAX_MESSAGE = 3800
"""Maximum bytes of a message. If a message has more than 4,096 bytes, ntfy turns it into an attached
file."""
_MAX_BODY = 8000
"""Maximum bytes of the JSON. ntfy reads at most twice the length of a message."""
_MAX_INCIDENT = 2000
_PRIORITIES: dict[Tone, int] = {"critical": 5, "warning": 4, "info": 3, "resolved": 3}
_TAGS: dict[Tone, str] = {
    "critical": "rotating_light",
    "warning": "warning",
    "info": "information_source",
    "resolved": "white_check_mark",
}


class NtfyChannel:
    """Publishes to an ntfy topic."""

    def __init__(self, http: OutboundHttp) -> None:
        self._http = http

    async def send(self, message: Message, destination: Destination) -> None:
        """Send the message. The JSON is posted to the root of the server, not to the topic."""
        settings = read_settings(NtfySettings, destination.settings)
        secrets = read_settings(NtfySecrets, destination.secrets)
        headers = {"Authorization": f"Bearer {secrets.token}"} if secrets.token else {}
        body = msgspec.json.encode({"topic": secrets.topic, **build_payload(message)})
        reply = await self._http.post(settings.server.rstrip("/") + "/", body, headers)
        check_reply(
            reply,
            name="ntfy",
            secrets=destination.secrets.values(),
            hint="Check the address of the server, the topic and the token.",
        )


def build_payload(message: Message) -> dict[str, Any]:
    """Return the JSON of the message. The topic is added later."""
    return shrink(view_message(message), _MAX_INCIDENT, _build, _fits)


def _fits(payload: dict[str, Any]) -> bool:
    # This leaves 100 bytes for the topic.
    return (
        count_bytes(payload["message"]) <= _MAX_MESSAGE
        and len(msgspec.json.encode(payload)) + 100 <= _MAX_BODY
    )


def _build(view: MessageView, limit: int) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "title": cut(f"{view.word}: {view.subject}", _MAX_TITLE, count_bytes),
        "message": "\n".join(_list_lines(view, limit)),
        "priority": _PRIORITIES[view.tone],
        "tags": [_TAGS[view.tone]],
    }
    if view.links:
        payload["click"] = view.links[0].url
        payload["actions"] = [{"action": "view", "label": link.text, "url": link.url} for link in view.links]
    return payload


def _list_lines(view: MessageView, limit: int) -> Iterator[str]:
    yield from view.notes
    for incident in view.incidents:
        lines = [] if view.is_single else ["", f"{incident.word}: {incident.title}"]
        lines += [incident.since, *(f"{name}: {value}" for name, value in incident.facts)]
        lines += [f"$ {incident.command}"] if incident.command else []
        yield fit_lines([*lines, *incident.details, incident.id], limit, count_bytes)
    if view.more:
        yield ""
        yield view.more
