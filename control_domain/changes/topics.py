"""The topics of changes: the parts of an account that a page may show, each with the scope that reading it
requires."""

from collections.abc import Mapping
from typing import Final, Literal, get_args

from control_domain.accounts.roles import Scope

Topic = Literal[
    "deployments",
    "approvals",
    "environments",
    "previews",
    "configuration",
    "webhooks",
    "heartbeats",
    "queues",
    "incidents",
    "notifications",
    "exceptions",
    "events",
    "pageviews",
]
TOPICS: Final[tuple[Topic, ...]] = get_args(Topic)

SCOPE_OF_TOPIC: Final[Mapping[Topic, Scope]] = {
    "deployments": "deploy:read",
    "approvals": "deploy:read",
    "environments": "deploy:read",
    "previews": "deploy:read",
    "configuration": "deploy:read",
    "webhooks": "deploy:read",
    "heartbeats": "monitoring:read",
    "queues": "monitoring:read",
    "incidents": "notifications:read",
    "notifications": "notifications:read",
    "exceptions": "telemetry:read",
    "events": "telemetry:read",
    "pageviews": "analytics:read",
}

STORED_TOPICS: Final[frozenset[Topic]] = frozenset({"exceptions", "events", "pageviews"})
"""Topics of rows in the column store. They are swept less often, and only for a caller who names them."""

_TOPICS_OF_KIND: Final[Mapping[str, frozenset[Topic]]] = {
    "project": frozenset({"environments"}),
    "environment": frozenset({"environments", "previews"}),
    "variables": frozenset({"environments", "approvals"}),
    "workflow": frozenset({"environments"}),
    "repository": frozenset({"environments", "webhooks"}),
    "deployment": frozenset({"deployments", "approvals"}),
    "push": frozenset({"deployments"}),
    "configuration": frozenset({"configuration", "approvals"}),
    "webhook": frozenset({"webhooks"}),
    "heartbeat": frozenset({"heartbeats"}),
    "queue": frozenset({"queues"}),
    "monitor-key": frozenset({"heartbeats", "queues"}),
    "ingest-key": frozenset({"environments"}),
    "incident": frozenset({"incidents"}),
    "silence": frozenset({"incidents"}),
    "threshold": frozenset({"notifications"}),
    "notification-channel": frozenset({"notifications"}),
    "notification-rule": frozenset({"notifications"}),
    "notification": frozenset({"notifications"}),
    "exception": frozenset({"exceptions"}),
    "site": frozenset({"pageviews"}),
    "goal": frozenset({"pageviews"}),
}


def topics_of_action(action: str) -> frozenset[Topic]:
    """Return the topics that an audited action changes, such as `deployment.queue`."""
    return _TOPICS_OF_KIND.get(action.partition(".")[0], frozenset())
