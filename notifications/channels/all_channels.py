"""Opens all types of channels that an installation can use."""

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager

from control_domain.notifications.channel_types import find_unavailable_reason
from notifications.channels.apprise_channel import AppriseChannel
from notifications.channels.discord import DiscordChannel
from notifications.channels.email_channel import EmailChannel
from notifications.channels.interface import Channel, DeliveryFailed, Destination
from notifications.channels.ntfy import NtfyChannel
from notifications.channels.outbound_http.client import OutboundHttp, open_outbound_http
from notifications.channels.outbound_http.resolver import Endpoint
from notifications.channels.pagerduty import PagerDutyChannel
from notifications.channels.slack import SlackChannel
from notifications.channels.smtp_settings import SmtpSettings, read_smtp_settings
from notifications.channels.teams import TeamsChannel
from notifications.channels.telegram import TelegramChannel
from notifications.channels.webhook import WebhookChannel
from notifications.message import Message
from pipeline_contracts.settings import Settings


class UnavailableChannel:
    """A channel type that this installation cannot use because a setting is missing."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def send(self, message: Message, destination: Destination) -> None:
        """Raise `DeliveryFailed`, with the name of the setting that the operator must add. The failure is
        temporary, so that a start without the setting loses no waiting notification."""
        raise DeliveryFailed(self._reason)


@asynccontextmanager
async def open_channels(
    settings: Settings, endpoints: Collection[Endpoint] = ()
) -> AsyncIterator[Mapping[str, Channel]]:
    """Open a channel for each type, keyed by the name of the type, without connecting to anything. `endpoints`:
    private addresses that channels may reach.

    Raises `BadSettings` for invalid e-mail settings.
    """
    smtp = read_smtp_settings(settings)
    async with open_outbound_http(
        allow_private=settings.notification_private_addresses, endpoints=endpoints
    ) as http:
        channels = _make_channels(http, smtp)
        for name in channels:
            reason = find_unavailable_reason(name, settings)
            if reason is not None:
                channels[name] = UnavailableChannel(reason)
        yield channels


def _make_channels(http: OutboundHttp, smtp: SmtpSettings | None) -> dict[str, Channel]:
    return {
        "email": UnavailableChannel("") if smtp is None else EmailChannel(smtp),
        "webhook": WebhookChannel(http),
        "slack": SlackChannel(http),
        "discord": DiscordChannel(http),
        "teams": TeamsChannel(http),
        "telegram": TelegramChannel(http),
        "ntfy": NtfyChannel(http),
        "pagerduty": PagerDutyChannel(http),
        "apprise": AppriseChannel(),
    }
