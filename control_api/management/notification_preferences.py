"""The caller's quiet hours, and the kinds of alerts: `/v1/me/notification-preferences`, `/v1/alert-kinds`."""

from typing import Annotated, Any, TypedDict

from msgspec import Meta, Struct

from control_api.operations.access import At, at_account
from control_api.operations.bodies import json_body
from control_api.operations.router import OperationRouter
from control_domain.notifications.kinds import KINDS
from control_domain.notifications.preferences import read_preference, set_quiet_hours
from control_domain.notifications.quiet_hours import QuietHours, describe_quiet_hours
from control_domain.tables.accounts import Account
from pipeline_contracts.alert_kinds import ALERT_KINDS, Default, Severity

operations = OperationRouter("Notifications")

_Read = Annotated[At[Account], at_account("notifications:read")]
_Write = Annotated[At[Account], at_account("notifications:write")]


class AlertKindDocument(TypedDict):
    """A kind of alert."""

    name: str
    family: str
    meaning: str
    severity: Severity
    default: Annotated[
        Default,
        Meta(
            description="The environments of which a rule without `kinds` sends it: all, only production, or none."
        ),
    ]
    reminds: Annotated[
        bool, Meta(description="True if an open incident is repeated after an hour, and then daily.")
    ]


class PreferencesDocument(TypedDict):
    """A person's settings for their own notifications, in all accounts."""

    quiet_hours: Annotated[
        dict[str, Any] | None,
        Meta(
            description="Quiet hours, in which messages below critical wait: `from`, `to`, `timezone` and `days`."
        ),
    ]


class SetPreferences(Struct, kw_only=True):
    """New settings for a person's own notifications."""

    quiet_hours: Annotated[QuietHours | None, Meta(description="Null: none.")]


@operations.get("/v1/alert-kinds")
async def list_alert_kinds(at: _Read) -> list[AlertKindDocument]:
    """List the kinds of alerts.

    Rules and silences name kinds, or families of kinds: the part of a kind before the dot.
    """
    return [
        {
            "name": kind.name,
            "family": kind.family,
            "meaning": kind.meaning,
            "severity": kind.severity,
            "default": kind.default,
            "reminds": kind.reminds,
        }
        for kind in map(ALERT_KINDS.__getitem__, KINDS)
    ]


@operations.get("/v1/me/notification-preferences")
async def read_notification_preferences(at: _Read) -> PreferencesDocument:
    """Read your notification preferences."""
    return {"quiet_hours": describe_quiet_hours(await read_preference(at.session, at.caller.person))}


@operations.put("/v1/me/notification-preferences")
async def set_notification_preferences(
    at: _Write, body: Annotated[SetPreferences, json_body(SetPreferences)]
) -> PreferencesDocument:
    """Set your notification preferences.

    E-mail to you about incidents below critical waits until your quiet hours end. Channels have their own quiet hours.
    """
    await set_quiet_hours(at.session, at.caller, body.quiet_hours, at.actor, at.now)
    return {"quiet_hours": describe_quiet_hours(await read_preference(at.session, at.caller.person))}
