"""Resources of a project and their fields: as a configuration document desires them, and as they are."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from control_domain.configurations.addresses import Address, Kind, write_address

VERSION = 2
"""The version of configuration documents."""
MASK = "•••"
"""Shown in place of a secret."""


class Keep(Enum):
    """Value of a variable that the document names without a value: its current value is kept."""

    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class Secret:
    """Value of a variable. Two secrets are equal if their keyed digests are. `value` is set only if the document gives
    it, and is never shown."""

    digest: str
    value: str | None = field(default=None, repr=False, compare=False)


Value = None | bool | int | float | str | Sequence[str] | Mapping[str, Any] | Secret | Keep
"""A field's value in the canonical form of documents: a duration is a text such as `30m`."""

FIELDS: Mapping[Kind, Mapping[str, Value]] = {
    "project": {"name": None},
    "environment": {
        "name": None,
        "type": None,
        "order": None,
        "branch": None,
        "replicas": 1,
        "state": "running",
        "locked": False,
        "window": None,
        "approval.deploys": False,
        "approval.variables": False,
        "wake_on_request": False,
    },
    "heartbeat": {
        "cron": None,
        "period": None,
        "timezone": "UTC",
        "grace": "5m",
        "max_runtime": "1h",
        "failures_before_down": 1,
        "paused": False,
    },
    "queue": {},
    "threshold": {
        "kind": None,
        "target": None,
        "service": None,
        "aggregation": "avg",
        "direction": "above",
        "threshold": None,
        "recovery": None,
        "window": "5m",
        "pending": "1m",
        "severity": None,
        "enabled": True,
    },
    "site": {"domains": None, "timezone": "UTC"},
    "rule": {
        "environment": None,
        "kinds": None,
        "min_severity": "info",
        "channels": [],
        "people": [],
        "reminders": True,
        "enabled": True,
    },
}
"""The fields of each kind in the order in which they are listed, with the default for a new resource. The variables of
an environment (`variables.NAME`) and the goals of a site (`goals.Signup`) are further fields."""

WITHOUT_DEFAULT: Mapping[Kind, frozenset[str]] = {
    "project": frozenset({"name"}),
    "environment": frozenset({"name", "type", "order"}),
    "heartbeat": frozenset({"cron", "period"}),
    "queue": frozenset(),
    "threshold": frozenset({"kind", "target", "threshold", "recovery", "severity"}),
    "site": frozenset({"domains"}),
    "rule": frozenset(),
}
"""Fields without a default. A plan does not list them as unmanaged if the document leaves them out."""

REQUIRED: Mapping[Kind, Sequence[Sequence[str]]] = {
    "project": (),
    "environment": (("type",),),
    "heartbeat": (("cron", "period"),),
    "queue": (),
    "threshold": (("kind",), ("target",), ("threshold",)),
    "site": (("domains",),),
    "rule": (("channels", "people"),),
}
"""Fields that the document has to give for a new resource: one of each group."""


@dataclass(frozen=True, slots=True)
class DesiredResource:
    """A resource as the document desires it.

    `fields`: only those that the document gives, named as in `FIELDS`, and `variables.…` and `goals.…`. `bound`: the
    fields that contain a binding's value and are therefore masked; variables are always masked.
    """

    address: Address
    fields: Mapping[str, Value]
    line: int
    bound: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ConfigurationDocument:
    """A configuration document as read. `deleted`: addresses of resources and of their members, each with its line."""

    resources: Sequence[DesiredResource]
    deleted: Mapping[Address, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CurrentResource:
    """A resource as it is now, with all of its fields, named and written as in `DesiredResource`."""

    address: Address
    fields: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class ProjectState:
    """A project as it is now, as far as a configuration document can describe it."""

    lineage: str
    """The project's public ID: a plan is valid for one project."""
    serial: int
    """Number of the newest configuration run, 0 before the first. A plan made before a run started is out of date,
    even if the run has not changed anything yet."""
    resources: Mapping[Address, CurrentResource]
    awaiting_approval: frozenset[Address] = frozenset()
    """Environments whose variables in `resources` wait for a second person's approval."""
    previews: frozenset[str] = frozenset()
    """Slugs of preview environments, which documents cannot contain."""
    channels: frozenset[str] = frozenset()
    """Names of the account's channels, to which rules send."""
    people: frozenset[str] = frozenset()
    """E-mail addresses of the people who may read the project, whom rules notify."""
    other_rules: frozenset[str] = frozenset()
    """Names of the account's other rules: a name stands for one rule of the account."""

    def fingerprint(self) -> str:
        """Return `sha256:…` of the resources and of the changes that wait for approval."""
        content = {
            "lineage": self.lineage,
            "serial": self.serial,
            "resources": [
                [write_address(address), {name: _to_plain(value) for name, value in resource.fields.items()}]
                for address, resource in sorted(self.resources.items())
            ],
            "awaiting_approval": sorted(map(write_address, self.awaiting_approval)),
        }
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"


def shorten_number(number: float) -> int | float:
    """Return a whole number as an integer, as documents write it."""
    return int(number) if float(number).is_integer() else number


def _to_plain(value: Value) -> Any:
    return {"secret": value.digest} if isinstance(value, Secret) else value
