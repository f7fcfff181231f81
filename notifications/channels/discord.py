"""Sends messages to Discord's webhooks, each with one embed
(https://discord.com/developers/docs/resources/message#embed-object)."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from control_domain.notifications.channel_types import DiscordSecrets, read_settings
from notifications.channels.interface import DeliveryFailed, Destination
from notifications.channels.markup import count_utf16, cut, fit_lines, shrink
from notifications.channels.outbound_http.client import OutboundHttp, Reply
from notifications.channels.outbound_http.replies import check_reply
from notifications.message import Message
from notifications.render.view import IncidentView, MessageView, Tone, view_message

_MAX_TITLE = 256
_MAX_DESCRIPTION = 4096
_MAX_NAME = 256
_MAX_VALUE = 1024
_MAX_EMBED = 6000
_UNKNOWN_WEBHOOK = 10015
_COLORS: dict[Tone, int] = {
    "critical": 0xD92D20,
    "warning": 0xF79009,
    "info": 0x2E90FA,
    "resolved": 0x12B76A,
}
_ICONS: dict[Tone, str] = {"critical": "🔴", "warning": "🟠", "info": "🔵", "resolved": "🟢"}
_MARKUP = re.compile(r"([\\*_~`|>#\[\]()<@:\-.+!])")


class DiscordChannel:
    """Posts to the URL of a webhook. The URL identifies one Discord channel."""

    def __init__(self, http: OutboundHttp) -> None:
        self._http = http

    async def send(self, message: Message, destination: Destination) -> None:
        """Send the message. The body of Discord's response says how long to wait, and whether the webhook
        was deleted."""
        secrets = read_settings(DiscordSecrets, destination.secrets)
        reply = await self._http.post(secrets.url, msgspec.json.encode(build_payload(message)), {})
        error = _read_error(reply)
        if reply.status == 404 and error.code == _UNKNOWN_WEBHOOK:
            raise DeliveryFailed("The webhook was deleted in Discord. Create a new one.", is_gone=True)
        check_reply(
            reply,
            name="Discord",
            secrets=destination.secrets.values(),
            hint="Create a new webhook in Discord, and set its URL.",
            retry_after=error.retry_after,
        )


class _Error(msgspec.Struct, frozen=True):
    code: int = 0
    retry_after: float | None = None


def _read_error(reply: Reply) -> _Error:
    try:
        return msgspec.json.decode(reply.body, type=_Error)
    except msgspec.MsgspecError:
        return _Error()


def build_payload(message: Message) -> dict[str, Any]:
    """Return the JSON of the message: one embed, without mentions."""
    return {
        "embeds": [shrink(view_message(message), _MAX_VALUE, _build_embed, _fits)],
        "allowed_mentions": {"parse": []},
    }


def escape(text: str) -> str:
    """Return the text with Discord's Markdown, mentions, emoji codes and links escaped."""
    return _MARKUP.sub(r"\\\1", text)


def _build_embed(view: MessageView, limit: int) -> dict[str, Any]:
    place = " · ".join(f"{name} **{escape(value)}**" for name, value in view.where)
    links = " · ".join(f"[{link.text}]({_escape_url(link.url)})" for link in view.links)
    first = view.incidents[0] if view.incidents else None
    lines = [place, *(escape(note) for note in view.notes)]
    if first is not None and view.is_single:
        lines += ["", *_list_lines(first)]
    description = fit_lines([*lines, *([view.more] if view.more else [])], limit * 3)
    if links and count_utf16(description) + count_utf16(links) < _MAX_DESCRIPTION - 2:
        description += f"\n\n{links}"
    embed: dict[str, Any] = {
        # Discord also renders Markdown in titles.
        "title": fit_lines([f"{_ICONS[view.tone]} {view.word}: {escape(cut(view.title, 110))}"], _MAX_TITLE),
        "description": description,
        "color": _COLORS[view.tone],
    }
    if not view.is_single:
        embed["fields"] = [
            {
                "name": fit_lines([f"{_ICONS[each.tone]} {escape(cut(each.title, 110))}"], _MAX_NAME),
                "value": fit_lines(_list_lines(each), limit),
            }
            for each in view.incidents
        ]
    return embed


def _list_lines(incident: IncidentView) -> Iterator[str]:
    yield escape(incident.since)
    for name, value in incident.facts:
        yield f"{escape(name)}: **{escape(value)}**"
    if incident.command:
        yield escape(f"$ {incident.command}")
    for detail in incident.details:
        yield escape(detail)
    yield f"[{escape(incident.id)}]({_escape_url(incident.url)})" if incident.url else escape(incident.id)


def _escape_url(url: str) -> str:
    return url.replace("(", "%28").replace(")", "%29")


def _fits(embed: dict[str, Any]) -> bool:
    texts = [embed["title"], embed["description"]]
    texts += [text for field in embed.get("fields", ()) for text in field.values()]
    return sum(count_utf16(text) for text in texts) <= _MAX_EMBED
