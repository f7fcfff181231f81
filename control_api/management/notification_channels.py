"""The channels to which notifications are sent: `/v1/notification-channels`."""

import json
from typing import Annotated, Any, Literal, TypedDict, cast

from msgspec import UNSET, Meta, Struct, UnsetType

from control_api.operations.access import At, at_account, at_account_object
from control_api.operations.bodies import json_body
from control_api.operations.pages import PageOf, PageQuery, read_pages
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.roles import AccountRight, has_account_right
from control_domain.notifications import channels
from control_domain.notifications.channel_secrets import open_secrets
from control_domain.notifications.channel_tests import start_test
from control_domain.notifications.channel_types import CHANNEL_TYPES
from control_domain.notifications.channels import ChannelFields, find_channel, lock_channel
from control_domain.notifications.quiet_hours import QuietHours, describe_quiet_hours
from control_domain.sealing import CannotOpen
from control_domain.slugs import MAX_NAME_LENGTH
from control_domain.tables.accounts import Account
from control_domain.tables.notifications import NotificationChannel
from pipeline_contracts.errors import Conflict, NameTaken, Unavailable
from pipeline_contracts.times import format_optional_time, format_time

operations = OperationRouter("Notifications")

_List = Annotated[At[Account], at_account("notifications:read")]
_Read = Annotated[At[NotificationChannel], at_account_object(find_channel, "channel", "notifications:read")]
_Create = Annotated[At[Account], at_account("notifications:write", AccountRight.MANAGE)]
_Change = Annotated[
    At[NotificationChannel],
    at_account_object(find_channel, "channel", "notifications:write", AccountRight.MANAGE),
]

ChannelTypeName = Literal[
    "email", "webhook", "slack", "discord", "teams", "telegram", "ntfy", "pagerduty", "apprise"
]


def _list_fields(*, is_secret: bool) -> str:
    """Return the fields of every type that has fields, for the reference."""
    types = []
    for channel_type in CHANNEL_TYPES.values():
        fields = [each for each in channel_type.list_fields() if each.is_secret is is_secret]
        names = ", ".join(f"`{each.name}`{'' if each.is_required else ' (optional)'}" for each in fields)
        if names:
            types.append(f"{channel_type.name}: {names}")
    return "; ".join(types)


_Values = dict[Annotated[str, Meta(max_length=60)], Annotated[str, Meta(max_length=2000)]]
_Name = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_NAME_LENGTH,
        description="1 to 100 printable characters; unique in the account.",
        examples=["On call"],
    ),
]
_Settings = Annotated[
    _Values,
    Meta(
        max_length=20,
        description=f"The settings of the type that are not secret. {_list_fields(is_secret=False)}.",
        examples=[{"address": "ops@shop.example"}],
    ),
]
_Secrets = Annotated[
    _Values,
    Meta(
        max_length=20,
        description="The settings of the type that are secret and never shown again. "
        f"{_list_fields(is_secret=True)}. Without "
        "`signing_secret`, one is made for a webhook.",
    ),
]


_Enabled = Annotated[bool, Meta(description="False to send nothing to it, neither now nor later.")]


class ChannelDocument(TypedDict):
    """A place to which notifications are sent. Members see its name, its type and whether it is on."""

    id: str
    number: int
    name: str
    type: ChannelTypeName
    settings: Annotated[dict[str, str] | None, Meta(description="Null for members.")]
    has_secrets: Annotated[
        list[str] | None, Meta(description="The names of the secrets that are set. Null for members.")
    ]
    quiet_hours: Annotated[
        dict[str, Any] | None,
        Meta(
            description="Quiet hours, in which messages below critical wait: `from`, `to`, `timezone` and `days`."
        ),
    ]
    enabled: bool
    failing_since: Annotated[
        str | None, Meta(description="Since when no delivery succeeds; null if the last one did.")
    ]
    last_error: Annotated[str | None, Meta(description="Why the last delivery failed. Null for members.")]
    created_at: str


class CreatedChannel(ChannelDocument):
    """A channel that was created."""

    signing_secret: Annotated[
        str | None,
        Meta(
            description="The secret that was made for a webhook, to verify its signatures. It is not shown again."
        ),
    ]


class RemovedChannel(ChannelDocument):
    """A channel that was removed."""

    rules: Annotated[
        int, Meta(description="The number of rules that named it. These rules stay, without the channel.")
    ]


class StartedTest(TypedDict):
    """A test that was started."""

    channel: str
    requested_at: str
    notifications: Annotated[
        str, Meta(description="The path of the list in which the test's message appears.")
    ]


class CreateChannel(Struct, kw_only=True):
    """A new channel."""

    name: _Name
    type: Annotated[ChannelTypeName, Meta(description="How messages are sent. It cannot be changed later.")]
    settings: _Settings = {}
    secrets: _Secrets = {}
    quiet_hours: Annotated[
        QuietHours | None,
        Meta(description="Quiet hours, in which messages below critical wait; by default none."),
    ] = None
    enabled: _Enabled = True


class UpdateChannel(Struct, kw_only=True):
    """The fields of a channel that change. Only the given settings and secrets change."""

    name: _Name | None = None
    settings: _Settings | None = None
    secrets: _Secrets | None = None
    quiet_hours: Annotated[
        QuietHours | None | UnsetType, Meta(description="Null removes the quiet hours.")
    ] = UNSET
    enabled: _Enabled | None = None


def _settings(document: ChannelDocument) -> dict[str, Any]:
    names = ("name", "settings", "has_secrets", "quiet_hours", "enabled")
    return {name: document[name] for name in names}  # type: ignore[literal-required]


def _describe(at: At[Any], channel: NotificationChannel) -> ChannelDocument:
    sees_all = has_account_right(at.caller.role, AccountRight.MANAGE)
    return {
        "id": channel.public_id,
        "number": channel.id,
        "name": channel.name,
        "type": cast(Any, channel.type),
        "settings": json.loads(channel.settings) if sees_all else None,
        "has_secrets": _list_secrets(at, channel) if sees_all else None,
        "quiet_hours": describe_quiet_hours(channel.quiet_hours),
        "enabled": channel.enabled,
        "failing_since": format_optional_time(channel.failing_since),
        "last_error": channel.last_error if sees_all else None,
        "created_at": format_time(channel.created_at),
    }


def _list_secrets(at: At[Any], channel: NotificationChannel) -> list[str]:
    try:
        return sorted(open_secrets(channel, at.sealing_keys))
    except CannotOpen:
        # The list must stay readable without the key, so that people can repair channels by setting their secrets
        # again.
        return []


@operations.get("/v1/notification-channels")
async def list_notification_channels(
    at: _List, params: Annotated[PageQuery, query(PageQuery)]
) -> PageOf[ChannelDocument]:
    """List notification channels.

    The newest first.
    """
    pages = read_pages(at, params, "notification channels")
    found, has_more = await channels.list_channels(at.session, at.account, pages.page)
    return pages.answer([_describe(at, channel) for channel in found], found[-1].id if has_more else None)


@operations.post("/v1/notification-channels", status=201, problems=[NameTaken, Conflict], secret=True)
async def create_notification_channel(
    at: _Create, body: Annotated[CreateChannel, json_body(CreateChannel)]
) -> CreatedChannel:
    """Create a notification channel.

    It receives the notifications of rules that name it. Send a test to check whether it works. An account has up to 50
    channels.
    """
    fields = ChannelFields(body.name, body.settings, body.secrets, body.quiet_hours, enabled=body.enabled)
    unavailable = at.request.app.state.unavailable_channels
    channel, made = await channels.add_channel(
        at.session, at.account, body.type, fields, at.sealing_keys, unavailable, at.actor, at.now
    )
    return {**_describe(at, channel), "signing_secret": made}


@operations.get("/v1/notification-channels/{channel}", etag=_settings)
async def read_notification_channel(at: _Read) -> ChannelDocument:
    """Read a notification channel."""
    return _describe(at, at.found)


@operations.patch("/v1/notification-channels/{channel}", etag=_settings, problems=[NameTaken])
async def update_notification_channel(
    at: _Change, body: Annotated[UpdateChannel, json_body(UpdateChannel)]
) -> ChannelDocument:
    """Change a notification channel.

    An empty text removes an optional setting or secret. The type stays. If an address leads to another server, all
    secrets except `signing_secret` must be given again.
    """
    await lock_channel(at.session, at.found)
    at.check_if_match(_settings(_describe(at, at.found)))
    hours = None if isinstance(body.quiet_hours, UnsetType) else body.quiet_hours
    fields = ChannelFields(
        body.name,
        body.settings,
        body.secrets,
        hours,
        clears_quiet_hours=body.quiet_hours is None,
        enabled=body.enabled,
    )
    try:
        await channels.update_channel(at.session, at.found, fields, at.sealing_keys, at.actor, at.now)
    except CannotOpen as error:
        raise Unavailable(
            "The channel's other secrets cannot be opened now. Give all of them.", retry_after=60
        ) from error
    return _describe(at, at.found)


@operations.delete("/v1/notification-channels/{channel}", checks_if_match=True)
async def delete_notification_channel(at: _Change) -> RemovedChannel:
    """Remove a notification channel.

    Rules that name it stay, without the channel. Its unsent notifications are canceled; its sent ones stay listed.
    """
    await lock_channel(at.session, at.found)
    document = _describe(at, at.found)
    at.check_if_match(_settings(document))
    rules = await channels.delete_channel(at.session, at.found, at.actor, at.now)
    return {**document, "rules": rules}


@operations.post("/v1/notification-channels/{channel}/test", status=202, problems=[Conflict])
async def test_notification_channel(at: _Change) -> StartedTest:
    """Test a notification channel.

    A test message is processed like every other: event, incident, message, delivery. Within seconds, the list of
    notifications shows whether it was delivered. A former test that still waits for a retry is canceled. 409 within 30
    s of the last test of the channel, and after 200 tests of the account within a day.
    """
    channel = at.found
    channels.check_can_send(channel, at.request.app.state.unavailable_channels)
    await start_test(at.session, channel, at.actor, at.now)
    since = format_time(at.now)
    return {
        "channel": channel.public_id,
        "requested_at": since,
        "notifications": f"/api/v1/notifications?channel={channel.public_id}&since={since}",
    }
