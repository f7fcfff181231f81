"""The kinds of alert events: what can happen, how severe it is, and whether people are notified of it by default.

A kind is `family.condition`. Events of one subject (a heartbeat, a queue, a deployment) with the same family belong to
one incident while it is open: a heartbeat that is late and then down is one incident, whose kind changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

Severity = Literal["info", "warning", "critical"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""Severities, the least severe first."""

EventState = Literal["firing", "resolved", "info"]
"""`firing` opens an incident or changes the open one, `resolved` ends it, `info` is an incident that ends at once."""

Default = Literal["on", "production", "off"]
"""Where a rule without kinds sends this kind: everywhere, only in environments of the type production, or nowhere."""


@dataclass(frozen=True, slots=True)
class AlertKind:
    """The properties of a kind of event."""

    name: str
    meaning: str
    """A description for people who choose kinds: `A heartbeat is down`."""
    severity: Severity
    default: Default = "on"
    reminds: bool = True
    """True if an open incident has a reminder after an hour, and then daily."""

    @property
    def family(self) -> str:
        """The part that groups messages: `heartbeat`."""
        return self.name.partition(".")[0]


_KINDS = (
    AlertKind("heartbeat.late", "A run of a heartbeat is late", "warning", "off"),
    AlertKind("heartbeat.down", "A heartbeat is down", "critical"),
    AlertKind("queue.wait", "The oldest job of a queue waits too long", "warning"),
    AlertKind("queue.size", "A queue has too many jobs", "warning"),
    AlertKind("queue.worker_lost", "A worker of a queue stopped reporting", "warning"),
    AlertKind("exception.new", "A group of exceptions is new", "warning", "production", False),
    AlertKind(
        "exception.regressed", "A resolved group of exceptions is back", "warning", "production", False
    ),
    AlertKind(
        "exception.spike", "A group of exceptions is far more frequent than usual", "warning", "production"
    ),
    AlertKind("service.error_rate", "The error rate of a service is over its threshold", "critical"),
    AlertKind("service.latency", "The p95 latency of a service is over its threshold", "warning"),
    AlertKind("metric.value", "A metric is beyond its threshold", "warning"),
    AlertKind("deployment.failed", "A deployment failed", "critical", "on", False),
    AlertKind("deployment.awaiting_approval", "A deployment waits for approval", "info"),
    AlertKind("deployment.succeeded", "A deployment succeeded", "info", "off", False),
    AlertKind("process.crash_loop", "A process crashes again and again", "critical"),
    AlertKind("preview.ready", "A preview is ready", "info", "off", False),
    AlertKind("site.spike", "A site has far more visitors than usual", "info", "on", False),
    AlertKind("site.silence", "A site that usually has visitors has none", "warning"),
    AlertKind("site.vital", "A Web Vital of a site is poor", "warning", "on", False),
    AlertKind("platform.consumer_lag", "Stored records wait too long to be processed", "critical"),
    AlertKind("platform.dead_letters", "Records could not be processed", "warning", "on", False),
    AlertKind("platform.disk", "The disk is nearly full", "critical"),
    AlertKind("platform.backup", "A scheduled backup failed", "warning"),
    AlertKind("platform.commit_statuses", "A Git host refuses commit statuses", "warning", "on", False),
    AlertKind("platform.blind", "Monitoring was blind for a while", "warning", "on", False),
    AlertKind("test.message", "A test of a channel", "info", "off", False),
)

ALERT_KINDS: Mapping[str, AlertKind] = {kind.name: kind for kind in _KINDS}
"""All kinds by name, in the order of the documentation."""
