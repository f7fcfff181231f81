"""Bodies, queries and documents of notification rules."""

from typing import Annotated, TypedDict

from msgspec import UNSET, Meta, Struct, UnsetType

from control_api.operations.pages import PageQuery
from control_domain.accounts.describe import PersonSummary, summarize_person
from control_domain.notifications.kinds import Kinds, read_kinds
from control_domain.notifications.rule_recipients import MAX_RECIPIENTS, Recipients
from control_domain.notifications.rules import FoundRule, read_rule_settings
from control_domain.projects.describe import (
    EnvironmentSummary,
    ProjectSummary,
    summarize_environment,
    summarize_project,
)
from control_domain.slugs import MAX_NAME_LENGTH
from pipeline_contracts.alert_kinds import Severity
from pipeline_contracts.times import format_time

_Id = Annotated[str, Meta(min_length=1, max_length=60)]
_Name = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_NAME_LENGTH,
        description="1 to 100 printable characters; unique in the account.",
        examples=["Production to on call"],
    ),
]


_MinSeverity = Annotated[Severity, Meta(description="Only incidents of this or a higher severity.")]
_Reminders = Annotated[
    bool, Meta(description="Whether open incidents are repeated after an hour, and then daily.")
]
_Enabled = Annotated[
    bool, Meta(description="False if the rule does not apply to incidents that begin from now on.")
]


class ChannelSummary(TypedDict):
    """A channel, as other documents include it."""

    id: str
    name: str
    type: str


class RecipientDocument(TypedDict):
    """A channel, or a person who gets e-mail; the other member is null."""

    channel: ChannelSummary | None
    person: PersonSummary | None


class RuleDocument(TypedDict):
    """A notification rule: the incidents that it selects, and the recipients who are notified of them."""

    id: int
    name: str
    project: Annotated[ProjectSummary | None, Meta(description="Null for all projects and the platform.")]
    environment: Annotated[EnvironmentSummary | None, Meta(description="Null: all environments.")]
    kinds: Annotated[
        list[str] | None, Meta(description="Kinds and families; null: the kinds that are on by default.")
    ]
    min_severity: Severity
    recipients: list[RecipientDocument]
    reminders: bool
    enabled: bool
    created_at: str


class DefaultRuleDocument(TypedDict):
    """The rule of projects without a rule of their own."""

    applies: Annotated[
        bool,
        Meta(
            description="True while the whole account has no rule: the default rule then applies to "
            "the platform, and to each project without a rule of its own."
        ),
    ]
    kinds: list[str]
    production_kinds: Annotated[
        list[str], Meta(description="Kinds that are sent only for environments of the type production.")
    ]
    recipients: Annotated[
        list[RecipientDocument],
        Meta(description="The owners, who get e-mail, except owners with an address at `localhost`."),
    ]
    sends_email: Annotated[
        bool, Meta(description="False if the installation has no mail server: then the rule sends nothing.")
    ]
    nobody: Annotated[
        str | None,
        Meta(description="Why the rule notifies nobody, and what to do; null if it notifies the recipients."),
    ]


class RecipientInput(Struct, kw_only=True, forbid_unknown_fields=True):
    """A recipient: either a channel or a person of the account, by string ID or number."""

    channel: Annotated[_Id | int | None, Meta(description="The channel's string ID, or its number.")] = None
    person: Annotated[_Id | int | None, Meta(description="The person's string ID, or their number.")] = None


_Recipients = Annotated[
    list[RecipientInput],
    Meta(
        max_length=MAX_RECIPIENTS,
        description="Channels, and people who get e-mail. People must be able to read the project of the rule.",
        examples=[[{"channel": "chn_01jz4f2k9d8c7b6a5v4t3s2r1q"}]],
    ),
]


class CreateRule(Struct, kw_only=True):
    """A new rule."""

    name: _Name
    project: Annotated[
        _Id | None,
        Meta(description="The project's string ID or number; by default all projects and the platform."),
    ] = None
    environment: Annotated[
        _Id | None,
        Meta(
            description="An environment of the project, by string ID or number; by default all environments."
        ),
    ] = None
    kinds: Kinds | None = None
    min_severity: _MinSeverity = "info"
    recipients: _Recipients
    reminders: _Reminders = True
    enabled: _Enabled = True


class UpdateRule(Struct, kw_only=True):
    """The fields of a rule that change. Its project stays."""

    name: _Name | None = None
    environment: Annotated[_Id | None | UnsetType, Meta(description="Null: all environments.")] = UNSET
    kinds: Annotated[
        Kinds | None | UnsetType, Meta(description="Null for the kinds that are on by default.")
    ] = UNSET
    min_severity: _MinSeverity | None = None
    recipients: _Recipients | None = None
    reminders: _Reminders | None = None
    enabled: _Enabled | None = None


class RuleQuery(PageQuery, kw_only=True):
    """The page and the filter of the list of rules."""

    project: Annotated[str | None, Meta(description="Only rules of the project with this ID or number.")] = (
        None
    )


def describe_rule(found: FoundRule, recipients: Recipients) -> RuleDocument:
    rule = found.rule
    settings = read_rule_settings(found)
    return {
        "id": rule.id,
        "name": rule.name,
        "project": None if found.project is None else summarize_project(found.project),
        "environment": None if found.environment is None else summarize_environment(found.environment),
        "kinds": read_kinds(rule.kinds),
        "min_severity": settings.min_severity,
        "recipients": [
            described
            for name in settings.recipients
            if (described := _describe_recipient(name, recipients)) is not None
        ],
        "reminders": rule.reminders,
        "enabled": rule.enabled,
        "created_at": format_time(rule.created_at),
    }


def _describe_recipient(name: str, recipients: Recipients) -> RecipientDocument | None:
    kind, _, number = name.partition(" ")
    if kind == "channel":
        channel = recipients.channels.get(int(number))
        if channel is None:
            return None
        summary: ChannelSummary = {"id": channel.public_id, "name": channel.name, "type": channel.type}
        return {"channel": summary, "person": None}
    person = recipients.people.get(int(number))
    return None if person is None else {"channel": None, "person": summarize_person(person)}
