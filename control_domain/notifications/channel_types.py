"""The catalogue of channel types: the settings and secrets of each, and their validation.

`notifications.channels` sends. All values are strings, so that the command line, the API and documents set them alike.
"""

import base64
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from control_domain.notifications.destination_formats import FORMATS, MAX_URL_LENGTH
from pipeline_contracts.errors import FieldError, InvalidInput
from pipeline_contracts.settings import Settings


def _text(format_name: str, description: str, max_length: int) -> Meta:
    return Meta(max_length=max_length, description=description, extra={"format": format_name})


class _Values(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Settings or secrets of one type."""


_V = TypeVar("_V", bound=_Values)


class NoSettings(_Values, frozen=True, kw_only=True):
    """The settings of a type that only needs secrets or settings of the installation."""


class EmailSettings(_Values, frozen=True, kw_only=True):
    address: Annotated[
        str,
        _text(
            "email", "The address; for several people, use a mailing list or a channel for each person", 254
        ),
    ]


class WebhookSettings(_Values, frozen=True, kw_only=True):
    url: Annotated[
        str,
        _text(
            "http-url",
            "URL to which messages are posted. Members can see it, so do not put a token into it: "
            "the signature proves the sender",
            MAX_URL_LENGTH,
        ),
    ]


class WebhookSecrets(_Values, frozen=True, kw_only=True):
    signing_secret: Annotated[
        str,
        _text(
            "signing-secret",
            "Key of the signatures, whsec_…; during a rotation the new one and the old one, separated by a space",
            320,
        ),
    ]
    authorization: Annotated[
        str,
        _text("header", "Value of the header Authorization, for a gateway that requires one: Bearer …", 1000),
    ] = ""


class SlackSecrets(_Values, frozen=True, kw_only=True):
    url: Annotated[
        str, _text("http-url", "Webhook URL of the app, https://hooks.slack.com/services/…", MAX_URL_LENGTH)
    ]


class DiscordSecrets(_Values, frozen=True, kw_only=True):
    url: Annotated[
        str,
        _text("http-url", "Webhook URL of the channel, https://discord.com/api/webhooks/…", MAX_URL_LENGTH),
    ]


class TeamsSecrets(_Values, frozen=True, kw_only=True):
    url: Annotated[
        str, _text("http-url", "URL of the workflow that posts to a channel or a chat", MAX_URL_LENGTH)
    ]


class TelegramSettings(_Values, frozen=True, kw_only=True):
    chat_id: Annotated[str, _text("telegram-chat", "Number of the chat, or @name of a public channel", 64)]
    topic_id: Annotated[str, _text("number", "Number of a topic, in a group with topics", 16)] = ""
    api_url: Annotated[
        str, _text("http-url", "Address of the Bot API, if you run your own", MAX_URL_LENGTH)
    ] = "https://api.telegram.org"


class TelegramSecrets(_Values, frozen=True, kw_only=True):
    bot_token: Annotated[str, _text("telegram-token", "Token of the bot, as BotFather shows it", 128)]


class NtfySettings(_Values, frozen=True, kw_only=True):
    server: Annotated[str, _text("http-url", "Address of the server", MAX_URL_LENGTH)] = "https://ntfy.sh"


class NtfySecrets(_Values, frozen=True, kw_only=True):
    topic: Annotated[
        str, _text("ntfy-topic", "The topic; on ntfy.sh, everybody who knows it can read the messages", 64)
    ]
    token: Annotated[str, _text("header", "Access token, tk_…, if the server requires one", 200)] = ""


class PagerDutySettings(_Values, frozen=True, kw_only=True):
    url: Annotated[
        str,
        _text(
            "http-url",
            "Address of Events v2; in the EU service region https://events.eu.pagerduty.com/v2/enqueue",
            MAX_URL_LENGTH,
        ),
    ] = "https://events.pagerduty.com/v2/enqueue"


class PagerDutySecrets(_Values, frozen=True, kw_only=True):
    routing_key: Annotated[str, _text("pagerduty-key", "Integration key of an Events API v2 integration", 32)]


class AppriseSecrets(_Values, frozen=True, kw_only=True):
    url: Annotated[str, _text("apprise-url", "Apprise URL of the service", MAX_URL_LENGTH)]


@dataclass(frozen=True, slots=True)
class ChannelField:
    """One setting or secret of a type, for help texts and documentation."""

    name: str
    description: str
    is_secret: bool
    is_required: bool
    default: str
    max_length: int
    format: str


@dataclass(frozen=True, slots=True)
class ChannelType:
    """A way to send messages."""

    name: str
    title: str
    description: str
    settings: type[_Values]
    secrets: type[_Values] = NoSettings

    def list_fields(self) -> list[ChannelField]:
        """Return the settings, then the secrets, in the order of the documentation."""
        return [*_describe(self.settings, is_secret=False), *_describe(self.secrets, is_secret=True)]


_TYPES = (
    ChannelType("email", "E-mail", "Messages over the installation's SMTP server", EmailSettings),
    ChannelType(
        "webhook",
        "Webhook",
        "Signed HTTP requests to your own programs, as specified by Standard Webhooks",
        WebhookSettings,
        WebhookSecrets,
    ),
    ChannelType(
        "slack", "Slack", "A channel of Slack, through an incoming webhook", NoSettings, SlackSecrets
    ),
    ChannelType(
        "discord", "Discord", "A channel of Discord, through its webhook", NoSettings, DiscordSecrets
    ),
    ChannelType(
        "teams", "Microsoft Teams", "A channel or chat of Teams, through a workflow", NoSettings, TeamsSecrets
    ),
    ChannelType(
        "telegram", "Telegram", "A chat of Telegram, through a bot", TelegramSettings, TelegramSecrets
    ),
    ChannelType("ntfy", "ntfy", "Push messages of ntfy.sh or an ntfy server", NtfySettings, NtfySecrets),
    ChannelType(
        "pagerduty", "PagerDuty", "Alerts of a PagerDuty service", PagerDutySettings, PagerDutySecrets
    ),
    ChannelType(
        "apprise",
        "Apprise",
        "Any service that Apprise knows, if the operator allows it; it may reach private addresses",
        NoSettings,
        AppriseSecrets,
    ),
)

CHANNEL_TYPES: Mapping[str, ChannelType] = {channel_type.name: channel_type for channel_type in _TYPES}
"""All types by name, in the order of the documentation."""


def check_channel(
    type_name: str, settings: Mapping[str, object], secret_values: Mapping[str, object]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the complete settings and secrets to store, without empty optional values.

    Raises `InvalidInput` with every fault; the fields are named `type`, `settings.NAME` and `secrets.NAME`. For a
    change of an existing channel, pass the stored values with the new ones over them; an empty string removes an
    optional one.
    """
    channel_type = CHANNEL_TYPES.get(type_name)
    if channel_type is None:
        errors = [FieldError("type", f"must be one of {', '.join(CHANNEL_TYPES)}")]
    else:
        errors = [
            *_find_faults(channel_type.settings, "settings", settings),
            *_find_faults(channel_type.secrets, "secrets", secret_values),
        ]
    if errors or channel_type is None:
        raise InvalidInput(
            "Nothing was changed. Fix the fields listed below and send the request again.", errors=errors
        )
    return _strip(settings), _strip(secret_values)


def find_unavailable_reason(type_name: str, settings: Settings) -> str | None:
    """Return why this installation cannot send through the type and which settings to change; None if it can send."""
    if type_name == "email" and not settings.smtp_url:
        return "This installation sends no e-mail. Set PHAROS_SMTP_URL and PHAROS_SMTP_FROM, and restart it."
    if type_name == "apprise" and not settings.apprise:
        return "This installation does not allow Apprise. Set PHAROS_APPRISE=1."
    if type_name == "apprise" and find_spec("apprise") is None:
        return "The package apprise is not installed. Run pip install 'pharos[apprise]'."
    return None


def find_unavailable_types(settings: Settings) -> dict[str, str]:
    """Return the types through which this installation cannot send, with the reasons."""
    reasons = {name: find_unavailable_reason(name, settings) for name in CHANNEL_TYPES}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def new_signing_secret() -> str:
    """Return a random secret for the signatures of a webhook."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


def read_settings(kind: type[_V], values: Mapping[str, Any]) -> _V:
    """Return stored settings or secrets as their struct, with the defaults."""
    return msgspec.convert(dict(values), kind)


def _find_faults(kind: type[_Values], group: str, values: Mapping[str, object]) -> Iterator[FieldError]:
    fields = {field.name: field for field in _describe(kind, is_secret=group == "secrets")}
    known = ", ".join(fields)
    for name in values:
        if name not in fields:
            reason = f"is unknown; the type has {known}" if known else f"is unknown; the type has no {group}"
            yield FieldError(f"{group}.{name[:60]}", reason)
    for name, field in fields.items():
        value = values.get(name, "")
        if not isinstance(value, str):
            yield FieldError(f"{group}.{name}", "must be a string")
        elif not value:
            if field.is_required:
                yield FieldError(f"{group}.{name}", "is required")
        elif len(value) > field.max_length:
            yield FieldError(f"{group}.{name}", f"must have at most {field.max_length} characters")
        elif (fault := FORMATS[field.format](value)) is not None:
            yield FieldError(f"{group}.{name}", fault)


def _strip(values: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items() if value}


def _describe(kind: type[_Values], *, is_secret: bool) -> Iterator[ChannelField]:
    # `msgspec.inspect` drops `extra` of a Meta, so read the annotations directly.
    for field in msgspec.structs.fields(kind):
        (meta,) = field.type.__metadata__
        yield ChannelField(
            name=field.name,
            description=meta.description,
            is_secret=is_secret,
            is_required=field.required,
            default="" if field.required else str(field.default),
            max_length=meta.max_length,
            format=meta.extra["format"],
        )
