"""Sends messages to Microsoft Teams through a workflow ("When a Teams webhook request is received"), as an
Adaptive Card 1.4."""

from collections.abc import Iterator
from typing import Any

import msgspec

from control_domain.notifications.channel_types import TeamsSecrets, read_settings
from notifications.channels.interface import Destination
from notifications.channels.markup import shrink
from notifications.channels.outbound_http.client import OutboundHttp
from notifications.channels.outbound_http.replies import check_reply
from notifications.message import Message
from notifications.render.view import IncidentView, MessageView, Tone, view_message

_MAX_BYTES = 27_000
"""Maximum bytes of the payload. Teams accepts 28 KB, including what the workflow adds."""
_MAX_INCIDENT = 3000
_COLORS: dict[Tone, str] = {
    "critical": "Attention",
    "warning": "Warning",
    "info": "Accent",
    "resolved": "Good",
}


class TeamsChannel:
    """Posts to the URL of a workflow."""

    def __init__(self, http: OutboundHttp) -> None:
        self._http = http

    async def send(self, message: Message, destination: Destination) -> None:
        """Send the message. A workflow responds 202 before it posts to Teams, so a failure of its own step only
        shows in its run history."""
        secrets = read_settings(TeamsSecrets, destination.secrets)
        reply = await self._http.post(secrets.url, msgspec.json.encode(build_payload(message)), {})
        check_reply(
            reply,
            name="Teams",
            secrets=destination.secrets.values(),
            hint="Check that the workflow exists and is turned on, and set its URL.",
        )


def build_payload(message: Message) -> dict[str, Any]:
    """Return the JSON that the workflow's template expects."""
    return shrink(
        view_message(message),
        _MAX_INCIDENT,
        _wrap_card,
        lambda payload: len(msgspec.json.encode(payload)) <= _MAX_BYTES,
    )


def _wrap_card(view: MessageView, limit: int) -> dict[str, Any]:
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "fallbackText": f"{view.word}: {view.subject}",
        "msteams": {"width": "Full"},
        "body": list(_list_body(view, limit)),
    }
    if view.links:
        card["actions"] = [
            {"type": "Action.OpenUrl", "title": link.text, "url": link.url} for link in view.links
        ]
    return {
        "type": "message",
        "attachments": [
            {
                "contentType": "application/vnd.microsoft.card.adaptive",
                "contentUrl": None,
                "content": card,
            }
        ],
    }


def _list_body(view: MessageView, limit: int) -> Iterator[dict[str, Any]]:
    # A RichTextBlock shows text unchanged. A TextBlock or a FactSet would interpret Markdown and {{DATE()}}.
    yield _block(_run(view.word, weight="Bolder", color=_COLORS[view.tone]))
    yield _block(_run(view.title, weight="Bolder", size="Large"), spacing="Small")
    place = "  ·  ".join(f"{name} {value}" for name, value in view.where)
    yield _block(_run(place, isSubtle=True), spacing="Small")
    for note in view.notes:
        yield _block(_run(note))
    for incident in view.incidents:
        yield {
            "type": "Container",
            "separator": True,
            "spacing": "Medium",
            "items": _list_items(incident, limit, is_single=view.is_single),
        }
    if view.more:
        yield _block(_run(view.more))


def _list_items(incident: IncidentView, limit: int, *, is_single: bool) -> list[dict[str, Any]]:
    items = []
    if not is_single:
        items.append(
            _block(
                _run(f"{incident.word}: ", weight="Bolder", color=_COLORS[incident.tone]),
                _run(incident.title, weight="Bolder", url=incident.url),
            )
        )
    items.append(_block(_run(incident.since, isSubtle=True), spacing="Small"))
    more = [_block(_run(f"{name}: "), _run(value, weight="Bolder")) for name, value in incident.facts]
    if incident.command:
        more.append(_block(_run(incident.command, fontType="Monospace")))
    more += [_block(_run(detail)) for detail in incident.details]
    more.append(_block(_run(incident.id, isSubtle=True, size="Small")))
    room = limit
    for item in more:
        room -= sum(len(run["text"]) for run in item["inlines"])
        if room < 0:
            break
        items.append({**item, "spacing": "Small"})
    return items


def _block(*runs: dict[str, Any], **properties: Any) -> dict[str, Any]:
    return {"type": "RichTextBlock", "inlines": list(runs), **properties}


def _run(text: str, *, url: str | None = None, **properties: Any) -> dict[str, Any]:
    run = {"type": "TextRun", "text": text or "-", **properties}
    return run if url is None else {**run, "selectAction": {"type": "Action.OpenUrl", "url": url}}
