"""Conditions that select the visits of an analysis."""

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
"""What a condition compares. `page`: a page that the visit viewed. `event`: an event that the visit sent on the day.
All others: properties of the visit."""
Operator = Literal["is", "is_not", "contains", "contains_not"]

DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on the values of a visit. `is`: it has one of the given values. `is_not`: it has none of them.
    `contains`: it has a value that contains one of the texts, in upper or lower case. `contains_not`: it has no such
    value."""

    operator: Operator
    dimension: Dimension
    values: tuple[str, ...]


_PARTS = "multiSearchAnyCaseInsensitiveUTF8({}, {{{}_part:Array(String)}})"
_CLAUSES: Mapping[str, tuple[str, str]] = {
    **{
        name: (f"{name} IN {{{name}:Array(String)}}", _PARTS.format(name, name))
        for name in DIMENSIONS
        if name not in ("page", "event")
    },
    "page": (
        "hasAny(pages, {page:Array(String)}) OR hasAny(other_pages, {page:Array(String)})",
        f"arrayExists(each -> {_PARTS.format('each', 'page')}, arrayConcat(pages, other_pages))",
    ),
    "event": (
        "hasAny(action_names, {event:Array(String)})",
        f"arrayExists(each -> {_PARTS.format('each', 'event')}, action_names)",
    ),
}
"""The SQL conditions of each dimension: first for `is`, then for `contains`."""


def filter_visits(sql: str, conditions: Sequence[Condition]) -> str:
    """Return the query with the SQL of these conditions in place of `{conditions}`.

    Dimensions without a condition are left out, because the engine would spend time on planning them.
    """
    clauses = [_clause(each) for each in conditions if each.values]
    return sql.replace("{conditions}", " AND ".join(clauses) or "true")


def _clause(condition: Condition) -> str:
    suffix = _suffix(condition)
    of_values, of_parts = _CLAUSES[condition.dimension]
    return f"({of_parts if suffix else of_values}) = {{{condition.dimension}{suffix}_wanted:Bool}}"


def condition_parameters(conditions: Sequence[Condition]) -> Mapping[str, Any]:
    """Return the SQL parameters of the conditions. A dimension may have one condition on its values, and one on
    texts in its values."""
    parameters: dict[str, Any] = {}
    for dimension in DIMENSIONS:
        for suffix in ("", "_part"):
            parameters[f"{dimension}{suffix}"] = []
            parameters[f"{dimension}{suffix}_wanted"] = True
    for condition in conditions:
        suffix = _suffix(condition)
        parameters[f"{condition.dimension}{suffix}"] = list(condition.values)
        parameters[f"{condition.dimension}{suffix}_wanted"] = not condition.operator.endswith("_not")
    return parameters


def _suffix(condition: Condition) -> str:
    return "_part" if condition.operator.startswith("contains") else ""
