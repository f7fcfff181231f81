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
"""`page`: a page that the visit viewed; `event`: an event that it sent on the day; all others: properties of the
visit."""
Operator = Literal["is", "is_not", "contains", "contains_not"]

DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)


@dataclass(frozen=True, slots=True)
class Condition:
    """The visit has one of the values (`is`), none of them (`is_not`), a value that contains one of the texts in any
    case (`contains`), or no such value (`contains_not`)."""

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
"""SQL conditions by dimension: for `is`, and for `contains`."""


def filter_visits(sql: str, conditions: Sequence[Condition]) -> str:
    """Replace `{conditions}` in the query with the SQL of these conditions.

    Dimensions without a condition are omitted, because the engine would spend time on planning them.
    """
    clauses = [_clause(each) for each in conditions if each.values]
    return sql.replace("{conditions}", " AND ".join(clauses) or "true")


def _clause(condition: Condition) -> str:
    suffix = _suffix(condition)
    of_values, of_parts = _CLAUSES[condition.dimension]
    return f"({of_parts if suffix else of_values}) = {{{condition.dimension}{suffix}_wanted:Bool}}"


def condition_parameters(conditions: Sequence[Condition]) -> Mapping[str, Any]:
    """Return the SQL parameters. A dimension has at most one condition on its values and one on texts in them."""
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
