"""The context of one step of a configuration run, and checks that the project is still as planned."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.configurations.addresses import write_address
from control_domain.configurations.plan import Action, Change
from control_domain.configurations.resources import Value
from control_domain.sealing import SealingKeys
from control_domain.tables.projects import Project

_MAX_NAMED_FIELDS = 5


class StepFailed(Exception):
    """A step that cannot be applied to the project as it is now. The message gives the reason and what to do, without
    secrets. The transaction has to be rolled back."""


@dataclass(frozen=True, slots=True)
class Publications:
    """Sites and revoked keys to publish to the edges once the transaction is committed."""

    sites: Sequence[int] = ()
    """IDs of the sites to publish."""
    revoke: Sequence[bytes] = ()
    """Digests of the keys and trackers to revoke."""
    names: Sequence[tuple[str, str]] = ()
    """Names that a heartbeat got or lost, each with the public ID of the environment."""

    def __bool__(self) -> bool:
        return bool(self.sites or self.revoke or self.names)

    def to_json(self) -> str:
        """Return the stored form, which `from_json` reads."""
        return json.dumps(
            {
                "sites": list(self.sites),
                "forget": [digest.hex() for digest in self.revoke],
                "names": list(self.names),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> "Publications":
        """Read the stored form that `to_json` wrote."""
        stored = json.loads(text)
        return cls(
            stored["sites"],
            [bytes.fromhex(digest) for digest in stored["forget"]],
            # An earlier version published no names.
            [(environment, name) for environment, name in stored.get("names", ())],
        )


@dataclass(frozen=True, slots=True)
class StepContext:
    """The action that a step applies, the transaction, and the actor for the audit log."""

    session: AsyncSession
    keys: SealingKeys
    project: Project
    action: Action
    actor: Actor
    now: datetime
    approved_gates: Sequence[str] = ()
    """The gates that a second person approved to lower."""
    author_id: int | None = None
    """The person who wrote the document; None: the actor."""

    @property
    def resource_name(self) -> str:
        """The resource's address as text."""
        return write_address(self.action.address)

    def record(self, action: str, subject: str, details: Mapping[str, Any]) -> None:
        """Add an entry to the audit log."""
        account = self.project.account_id
        record_audit_entry(self.session, self.actor, account, action, subject, self.now, details)

    def fail_removed(self) -> StepFailed:
        """Return the error for a resource that was removed since the plan."""
        return StepFailed(f"{self.resource_name} was removed meanwhile; make a new review.")


def describe_new_fields(changes: Iterable[Change]) -> dict[str, Any]:
    """Return the fields of a new resource for the audit log, without secrets: `{"replicas": 2}`."""
    return {change.field: change.to_json()["to"] for change in changes}


def describe_changes(changes: Iterable[Change]) -> dict[str, Any]:
    """Return changed fields for the audit log, without secrets: `{"replicas": {"from": 2, "to": 3}}`."""
    described = [change.to_json() for change in changes]
    return {change.pop("field"): change for change in described}


def find_remaining_changes(context: StepContext, current: Mapping[str, Value]) -> Sequence[Change]:
    """Return the changes that are not made yet.

    `current`: the fields of the locked resource. Raises `StepFailed` if a field is neither as planned nor as desired.
    """
    changes = context.action.changes
    _fail_if_changed(
        context,
        [
            change.field
            for change in changes
            if current.get(change.field) not in (change.before, change.after)
        ],
    )
    return [change for change in changes if current.get(change.field) != change.after]


def check_created(context: StepContext, current: Mapping[str, Value]) -> None:
    """Raise `StepFailed` unless a resource that exists already is as desired."""
    others = [change.field for change in context.action.changes if current.get(change.field) != change.after]
    if others:
        raise StepFailed(
            f"{context.resource_name} exists already, with another {_join_fields(others)}; make a new review."
        )


def check_removable(context: StepContext, current: Mapping[str, Value]) -> None:
    """Raise `StepFailed` if the resource to remove has a value that the plan has not seen."""
    before = {change.field: change.before for change in context.action.changes}
    _fail_if_changed(
        context,
        [field for field, value in current.items() if value is not None and value != before.get(field)],
    )


def _fail_if_changed(context: StepContext, fields: Sequence[str]) -> None:
    # Field names only: values may be secret.
    if fields:
        raise StepFailed(
            f"{context.resource_name} was changed meanwhile: {_join_fields(fields)}; make a new review."
        )


def _join_fields(fields: Sequence[str]) -> str:
    excess = len(fields) - _MAX_NAMED_FIELDS
    more = f" and {excess} more" if excess > 0 else ""
    return f"{', '.join(fields[:_MAX_NAMED_FIELDS])}{more}"
