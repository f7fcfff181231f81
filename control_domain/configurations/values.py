"""What the fields of a configuration document's resources hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from control_domain.configurations.addresses import Kind

MASK = "•••"
"""What stands for a secret wherever it is shown."""


class Keep(Enum):
    """A variable that the document names without giving its value: it stays what it is."""

    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class Secret:
    """The value of a variable. Two are the same whose keyed digests are; `value` is there only where somebody gives it
    now, and is never shown."""

    digest: str
    value: str | None = field(default=None, repr=False, compare=False)


Value = None | bool | int | str | Sequence[str] | Mapping[str, Any] | Secret | Keep
"""As the document has it, in its canonical form: durations are texts such as `30m`."""

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
    "site": {"domains": None, "timezone": "UTC"},
}
"""The fields of each kind in the order in which they are listed, and what each is where a new resource's document does
not say it. Variables of an environment (`variables.NAME`) and goals of a site (`goals.Signup`) are fields besides."""

ALWAYS_THERE: Mapping[Kind, frozenset[str]] = {
    "project": frozenset({"name"}),
    "environment": frozenset({"name", "type", "order"}),
    "heartbeat": frozenset({"cron", "period"}),
    "queue": frozenset(),
    "site": frozenset({"domains"}),
}
"""Fields without a default: that a document leaves them out says nothing."""

NEEDED: Mapping[Kind, Sequence[Sequence[str]]] = {
    "project": (),
    "environment": (("type",),),
    "heartbeat": (("cron", "period"),),
    "queue": (),
    "site": (("domains",),),
}
"""What a new resource's document has to say: one field of each group."""
