"""Which visits an analysis is about: conditions on what a visit is known by."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

Dimension = Literal[
    "page",
    "entry_page",
    "exit_page",
    "source",
    "campaign",
    "country",
    "device",
    "browser",
    "os",
    "event",
]
"""`page`: a page that the visit viewed; `event`: an event that it sent on the day; the others are the visit's own."""
Operator = Literal["is", "is_not", "contains", "contains_not"]

DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)


@dataclass(frozen=True, slots=True)
class Condition:
    """A visit has one of the values (`is`) or none of them (`is_not`), or a value with one of the texts in it, in any
    case (`contains`), or none (`contains_not`)."""

    operator: Operator
    dimension: Dimension
    values: tuple[str, ...]


def condition_parameters(conditions: Sequence[Condition]) -> Mapping[str, Any]:
    """Return the SQL parameters. A dimension has at most one condition on its values and one on texts in them."""
    parameters: dict[str, Any] = {}
    for dimension in DIMENSIONS:
        for suffix in ("", "_part"):
            parameters[f"{dimension}{suffix}"] = []
            parameters[f"{dimension}{suffix}_wanted"] = True
    for condition in conditions:
        suffix = "_part" if condition.operator.startswith("contains") else ""
        parameters[f"{condition.dimension}{suffix}"] = list(condition.values)
        parameters[f"{condition.dimension}{suffix}_wanted"] = not condition.operator.endswith("_not")
    return parameters
