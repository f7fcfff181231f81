"""The types of notification channels with their settings: `/v1/notification-channel-types`."""

from typing import Annotated, TypedDict

from msgspec import Meta

from control_api.operations.access import At, at_account
from control_api.operations.router import OperationRouter
from control_domain.notifications.channel_types import CHANNEL_TYPES, ChannelType
from control_domain.tables.accounts import Account

operations = OperationRouter("Notifications")

_Read = Annotated[At[Account], at_account("notifications:read")]


class ChannelFieldDocument(TypedDict):
    """A setting or a secret of a type of channel."""

    name: str
    description: str
    secret: Annotated[bool, Meta(description="True if it belongs into `secrets` and is never shown again.")]
    required: bool
    default: str
    max_length: int


class ChannelTypeDocument(TypedDict):
    """A way to send messages."""

    name: str
    title: str
    description: str
    unavailable: Annotated[
        str | None, Meta(description="Why this installation cannot send through it; null if it can.")
    ]
    fields: list[ChannelFieldDocument]


@operations.get("/v1/notification-channel-types")
async def list_notification_channel_types(at: _Read) -> list[ChannelTypeDocument]:
    """List the types of notification channels.

    With the settings and secrets of each, and whether this installation can send through it.
    """
    unavailable = at.request.app.state.unavailable_channels
    return [_describe(each, unavailable.get(each.name)) for each in CHANNEL_TYPES.values()]


def _describe(channel_type: ChannelType, unavailable: str | None) -> ChannelTypeDocument:
    return {
        "name": channel_type.name,
        "title": channel_type.title,
        "description": channel_type.description,
        "unavailable": unavailable,
        "fields": [
            {
                "name": field.name,
                "description": field.description,
                "secret": field.is_secret,
                "required": field.is_required,
                "default": field.default,
                "max_length": field.max_length,
            }
            for field in channel_type.list_fields()
        ],
    }
