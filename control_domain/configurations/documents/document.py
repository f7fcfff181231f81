"""The configuration document, version 2, as it was read: the resources that it wants, and what it wants gone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from control_domain.configurations.addresses import Address
from control_domain.configurations.values import Value

VERSION = 2


@dataclass(frozen=True, slots=True)
class Wanted:
    """A resource as the document wants it.

    `fields` are those that it says, by their names in `values.FIELDS`, and `variables.…` and `goals.…`; `bound` are
    those of them to which a binding gave something: they are masked. A variable is masked always.
    """

    address: Address
    fields: Mapping[str, Value]
    line: int
    bound: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ConfigurationDocument:
    """All of it. `deleted`: addresses of resources and of their members, each with its line."""

    resources: Sequence[Wanted]
    deleted: Mapping[Address, int] = field(default_factory=dict)
