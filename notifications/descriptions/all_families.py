"""Chooses the description of an event by the family of its alert kind. Also describes events of unknown kinds."""

from collections.abc import Mapping
from dataclasses import replace

from notifications.descriptions.deployments import describe as describe_deployment
from notifications.descriptions.exceptions import describe as describe_exception
from notifications.descriptions.heartbeats import describe as describe_heartbeat
from notifications.descriptions.interface import Describe, Description, Subject
from notifications.descriptions.metrics import describe as describe_metric
from notifications.descriptions.platform import describe as describe_platform
from notifications.descriptions.previews import describe as describe_preview
from notifications.descriptions.processes import describe as describe_process
from notifications.descriptions.queues import describe as describe_queue
from notifications.descriptions.services import describe as describe_service
from notifications.descriptions.sites import describe as describe_site
from notifications.descriptions.tests_of_channels import describe as describe_test
from notifications.incidents.apply_events import BEFORE_END
from pipeline_contracts.alert_kinds import ALERT_KINDS

DESCRIBE: Mapping[str, Describe] = {
    "heartbeat": describe_heartbeat,
    "deployment": describe_deployment,
    "process": describe_process,
    "preview": describe_preview,
    "site": describe_site,
    "service": describe_service,
    "queue": describe_queue,
    "platform": describe_platform,
    "metric": describe_metric,
    "exception": describe_exception,
    "test": describe_test,
}


def describe(subject: Subject) -> Description:
    """Return the description of an event, according to its family.

    The description of a resolution has the figures and labels that the incident had while it was open, because
    receivers match messages by them.
    """
    description = _describe(subject)
    if subject.state != "resolved":
        return description
    beginning = describe_beginning_of(subject)
    return replace(description, figures=beginning.figures, labels=beginning.labels)


def describe_beginning_of(subject: Subject) -> Description:
    """If the event is a resolution, return the description of the incident while it was open. Otherwise return the
    description of the event."""
    before = subject.facts.get(BEFORE_END)
    if subject.state != "resolved" or not isinstance(before, Mapping):
        return _describe(subject)
    return _describe(replace(subject, state="firing", facts={**subject.facts, **before}))


def _describe(subject: Subject) -> Description:
    return DESCRIBE.get(subject.kind.partition(".")[0], describe_unknown)(subject)


def describe_unknown(subject: Subject) -> Description:
    """Return a description for a kind that has none of its own: what the kind means, and the subject of the event."""
    kind = ALERT_KINDS.get(subject.kind)
    title = f"{subject.kind if kind is None else kind.meaning}: {subject.subject}"
    if subject.state == "resolved":
        title = f"Resolved: {title[:1].lower()}{title[1:]}"
    return Description(title[:200])
