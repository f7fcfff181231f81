"""Sends messages to Slack's incoming webhooks with Block Kit (https://docs.slack.dev/reference/block-kit/blocks)."""

from collections.abc import Iterator
from typing import Any

import msgspec

from control_domain.notifications.channel_types import SlackSecrets, read_settings
from notifications.channels.interface import Destination
from notifications.channels.markup import cut, fit_lines, shrink
from notifications.channels.outbound_http.client import OutboundHttp
from notifications.channels.outbound_http.replies import check_reply
from notifications.message import Message
from notifications.render.view import IncidentView, MessageView, Tone, view_message

_MAX_HEADER = 150
_MAX_TEXT = 3000
_MAX_BLOCKS_BYTES = 12_000
"""Maximum number of characters. Slack responds `msg_blocks_too_long` if all blocks together have about 13,200
characters; its documentation does not mention this limit."""
_ICONS: dict[Tone, str] = {"critical": "🔴", "warning": "🟠", "info": "🔵", "resolved": "🟢"}
_HINT = "Create a new webhook in the Slack app, and set its URL."


class SlackChannel:
    """Posts to the URL of an incoming webhook. The URL identifies one Slack channel."""

    def __init__(self, http: OutboundHttp) -> None:
        self._http = http

    async def send(self, message: Message, destination: Destination) -> None:
        """Send the message. Slack responds 403 and 404 for removed webhooks, and 410 for archived channels."""
        secrets = read_settings(SlackSecrets, destination.secrets)
        reply = await self._http.post(secrets.url, msgspec.json.encode(build_payload(message)), {})
        check_reply(reply, name="Slack", secrets=destination.secrets.values(), hint=_HINT)


def build_payload(message: Message) -> dict[str, Any]:
    """Return the JSON of the message. Notifications and screen readers use `text`; Slack displays `blocks`."""
    view = view_message(message)
    return {
        "text": fit_lines([f"{_ICONS[view.tone]} {view.word}: {escape(view.subject)}"], _MAX_TEXT),
        "blocks": shrink(
            view,
            _MAX_TEXT,
            lambda shown, limit: list(_list_blocks(shown, limit)),
            lambda blocks: len(msgspec.json.encode(blocks)) <= _MAX_BLOCKS_BYTES,
        ),
        "unfurl_links": False,
        "unfurl_media": False,
    }


def escape(text: str) -> str:
    """Return the text with mentions and links of `mrkdwn` escaped, such as `<!channel>` and `<https://…|text>`."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _list_blocks(view: MessageView, limit: int) -> Iterator[dict[str, Any]]:
    # Texts from people are sent as `plain_text`, which has no markup. Only links need `mrkdwn`.
    head = cut(f"{_ICONS[view.tone]} {view.word}: {view.title}", _MAX_HEADER)
    yield {"type": "header", "text": _plain(head)}
    place = "  ·  ".join(f"{name} {value}" for name, value in view.where)
    yield {"type": "context", "elements": [_plain(fit_lines([place, *view.notes], _MAX_TEXT))]}
    for incident in view.incidents:
        lines = _list_lines(incident, is_single=view.is_single)
        yield {"type": "section", "text": _plain(fit_lines(lines, limit))}
        if incident.url and not view.is_single:
            yield {"type": "context", "elements": [_markdown(_link(incident.url, incident.id))]}
    if view.more:
        yield {"type": "context", "elements": [_plain(view.more)]}
    # Use links instead of buttons: Slack sends each click on a button to the app, and shows a warning if the app
    # does not respond.
    links = fit_lines((_link(link.url, link.text) for link in view.links), _MAX_TEXT)
    if links:
        yield {"type": "section", "text": _markdown(links.replace("\n", "   "))}


def _list_lines(incident: IncidentView, *, is_single: bool) -> Iterator[str]:
    if not is_single:
        yield f"{_ICONS[incident.tone]} {incident.title}"
    yield incident.since
    for name, value in incident.facts:
        yield f"{name}: {value}"
    if incident.command:
        yield f"$ {incident.command}"
    yield from incident.details
    if is_single or not incident.url:
        yield incident.id


def _link(url: str, text: str) -> str:
    return f"<{url.replace('&', '&amp;').replace('|', '%7C')}|{escape(text)}>"


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text or "-", "emoji": False}


def _markdown(text: str) -> dict[str, Any]:
    return {"type": "mrkdwn", "text": text, "verbatim": True}
