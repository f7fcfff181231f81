"""The descriptions of all families of alert kinds, and the description of an unknown one."""

from collections.abc import Mapping

from notifications.descriptions import deployments, heartbeats, previews, processes
from notifications.descriptions.interface import Describe, Description, Subject
from pipeline_contracts.alert_kinds import ALERT_KINDS

DESCRIBE: Mapping[str, Describe] = {
    "heartbeat": heartbeats.describe,
    "deployment": deployments.describe,
    "process": processes.describe,
    "preview": previews.describe,
}


def describe(subject: Subject) -> Description:
    """Return the description of an event, by its family."""
    family = subject.kind.partition(".")[0]
    return DESCRIBE.get(family, describe_unknown)(subject)


def describe_unknown(subject: Subject) -> Description:
    """Return a description of a kind without one of its own: its meaning and its subject."""
    kind = ALERT_KINDS.get(subject.kind)
    title = f"{subject.kind if kind is None else kind.meaning}: {subject.subject}"
    if subject.state == "resolved":
        title = f"Resolved: {title[:1].lower()}{title[1:]}"
    return Description(title[:200])
