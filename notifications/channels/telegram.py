"""Sends messages through Telegram's Bot API: sendMessage with HTML
(https://core.telegram.org/bots/api#sendmessage)."""

import re
from collections.abc import Iterator
from html import escape, unescape
from typing import Any

import msgspec

from control_domain.notifications.channel_types import TelegramSecrets, TelegramSettings, read_settings
from notifications.channels.interface import DeliveryFailed, Destination
from notifications.channels.markup import count_utf16, fit_lines, shrink
from notifications.channels.outbound_http.client import OutboundHttp, Reply
from notifications.channels.outbound_http.replies import check_reply
from notifications.message import Message
from notifications.render.view import IncidentView, MessageView, Tone, view_message

_MAX_TEXT = 4096
"""Maximum number of characters of the displayed text, without tags."""
_MAX_MARKUP = 16_000
_MAX_INCIDENT = 3000
_ICONS: dict[Tone, str] = {"critical": "🔴", "warning": "🟠", "info": "🔵", "resolved": "🟢"}
_TAG = re.compile(r"<[^>]*>")


class TelegramChannel:
    """Sends messages as a Telegram bot."""

    def __init__(self, http: OutboundHttp) -> None:
        self._http = http

    async def send(self, message: Message, destination: Destination) -> None:
        """Send the message. Telegram reports errors as JSON, with the seconds to wait, or with the new ID if a
        group has become a supergroup."""
        settings = read_settings(TelegramSettings, destination.settings)
        token = read_settings(TelegramSecrets, destination.secrets).bot_token
        body = msgspec.json.encode(build_payload(message, settings))
        reply = await self._http.post(f"{settings.api_url.rstrip('/')}/bot{token}/sendMessage", body, {})
        parameters = _read_parameters(reply)
        if parameters.migrate_to_chat_id is not None:
            raise DeliveryFailed(
                f"The group became a supergroup. Set chat_id to {parameters.migrate_to_chat_id}.",
                is_permanent=True,
            )
        check_reply(
            reply,
            name="Telegram",
            secrets=destination.secrets.values(),
            hint="Check the token of the bot, the chat_id, and that the bot is a member of the chat.",
            retry_after=parameters.retry_after,
        )


class _Parameters(msgspec.Struct, frozen=True):
    retry_after: float | None = None
    migrate_to_chat_id: int | None = None


class _Error(msgspec.Struct, frozen=True):
    parameters: _Parameters = _Parameters()


def _read_parameters(reply: Reply) -> _Parameters:
    if reply.status < 300:
        return _Parameters()
    try:
        return msgspec.json.decode(reply.body, type=_Error).parameters
    except msgspec.MsgspecError:
        return _Parameters()


def build_payload(message: Message, settings: TelegramSettings) -> dict[str, Any]:
    """Return the JSON for sendMessage."""
    payload: dict[str, Any] = {
        "chat_id": settings.chat_id,
        "text": shrink(view_message(message), _MAX_INCIDENT, _write_text, _fits),
        "parse_mode": "HTML",
        "link_preview_options": {"is_disabled": True},
        # The message about a resolution is sent without a notification sound.
        "disable_notification": message.state == "resolved",
    }
    if settings.topic_id:
        payload["message_thread_id"] = int(settings.topic_id)
    return payload


def _fits(text: str) -> bool:
    shown = unescape(_TAG.sub("", text))
    return count_utf16(shown) <= _MAX_TEXT and len(text) <= _MAX_MARKUP


def _write_text(view: MessageView, limit: int) -> str:
    place = " · ".join(f"{name} <b>{escape(value)}</b>" for name, value in view.where)
    lines = [f"{_ICONS[view.tone]} <b>{escape(view.word)}: {escape(view.title)}</b>", place]
    lines += [escape(note) for note in view.notes]
    for incident in view.incidents:
        lines += ["", fit_lines(_list_lines(incident, is_single=view.is_single), limit)]
    if view.more:
        lines += ["", escape(view.more)]
    if view.links:
        # Put links into the text: Telegram refuses a message whose button links to localhost.
        lines += ["", " · ".join(_link(link.url, link.text) for link in view.links)]
    return "\n".join(lines)


def _list_lines(incident: IncidentView, *, is_single: bool) -> Iterator[str]:
    if not is_single:
        title = f"<b>{escape(incident.title)}</b>"
        yield f"{_ICONS[incident.tone]} {title}"
    yield escape(incident.since)
    for name, value in incident.facts:
        yield f"{escape(name)}: <b>{escape(value)}</b>"
    if incident.command:
        yield f"<code>{escape(incident.command)}</code>"
    for detail in incident.details:
        yield escape(detail)
    yield _link(incident.url, incident.id) if incident.url else escape(incident.id)


def _link(url: str, text: str) -> str:
    return f'<a href="{escape(url)}">{escape(text)}</a>'
