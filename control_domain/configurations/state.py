"""A project as it is, as far as a configuration document can say anything of it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from control_domain.configurations.addresses import Address, write_address
from control_domain.configurations.values import Secret, Value


@dataclass(frozen=True, slots=True)
class Present:
    """A resource as it is: every one of its fields, by the same names and in the same form as `document.Wanted`."""

    address: Address
    fields: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class ProjectState:
    """All that a plan reads."""

    lineage: str
    """The project's public ID: a plan is of one project."""
    serial: int
    """The newest application's number, 0 before the first: a plan from before an application is out of date, even where
    nothing has changed yet."""
    resources: Mapping[Address, Present]
    awaiting_approval: frozenset[Address] = frozenset()
    """Environments whose variables in `resources` wait for a second person."""
    previews: frozenset[str] = frozenset()
    """Slugs of environments that are made for branches and removed with them: no document is about them."""

    def fingerprint(self) -> str:
        """`sha256:…` of all of it but the previews, which a plan only keeps clear of."""
        told = {
            "lineage": self.lineage,
            "serial": self.serial,
            "resources": [
                [write_address(address), {name: _plain(value) for name, value in present.fields.items()}]
                for address, present in sorted(self.resources.items())
            ],
            "awaiting_approval": sorted(map(write_address, self.awaiting_approval)),
        }
        canonical = json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"


def _plain(value: Value) -> Any:
    return {"secret": value.digest} if isinstance(value, Secret) else value
