"""What it takes to carry an action out, and what comes of it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record
from control_domain.configurations.addresses import write_address
from control_domain.configurations.plan import Action, Change
from control_domain.sealing import SealingKeys
from control_domain.tables.projects import Project


class CannotCarryOut(Exception):
    """An action that cannot be carried out as things are now; the message says what is in the way and what to do, and
    holds nothing secret. The transaction has to be rolled back."""


@dataclass(frozen=True, slots=True)
class ToTell:
    """What the edges have to be told, once the transaction is committed."""

    sites: Sequence[int] = ()
    """The IDs of those to publish."""
    forget: Sequence[bytes] = ()
    """The digests of keys and trackers to revoke."""

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return bool(self.sites or self.forget)

    def to_json(self) -> str:
        """As it is kept until it is told; `from_json` gives it back."""
        return json.dumps({"sites": list(self.sites), "forget": [digest.hex() for digest in self.forget]})

    @classmethod
    def from_json(cls, text: str) -> "ToTell":
        """What `to_json` wrote."""
        kept = json.loads(text)
        return cls(kept["sites"], [bytes.fromhex(digest) for digest in kept["forget"]])


@dataclass(frozen=True, slots=True)
class Task:
    """An action on a project's resource, the transaction that it is carried out in, and for whom."""

    session: AsyncSession
    keys: SealingKeys
    project: Project
    action: Action
    actor: Actor
    now: datetime
    agreed: Sequence[str] = ()
    """The gates that a second person agreed to lower."""

    @property
    def called(self) -> str:
        """The resource's address as people write it."""
        return write_address(self.action.address)

    def record(self, action: str, subject: str, details: Mapping[str, Any]) -> None:
        """Note it in the audit log."""
        account = self.project.account_id
        record(self.session, self.actor, account, action, subject, self.now, details)

    def gone(self) -> CannotCarryOut:
        """That what is to be changed is there no more."""
        return CannotCarryOut(f"{self.called} was removed meanwhile; make a new review.")


def tell_new(changes: Iterable[Change]) -> dict[str, Any]:
    """What the fields of something new are, for the audit log: `{"replicas": 2}`, without secrets."""
    return {change.field: change.to_json()["to"] for change in changes}


def tell_changes(changes: Iterable[Change]) -> dict[str, Any]:
    """What fields become, for the audit log: `{"replicas": {"from": 2, "to": 3}}`, without secrets."""
    told = [change.to_json() for change in changes]
    return {one.pop("field"): one for one in told}
