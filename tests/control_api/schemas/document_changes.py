"""Mutates documents in one random place."""

from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

DeployTarget = tuple[Any, Any]
"""A mapping or list, and the key or index in it."""


def _places(value: Any) -> Iterator[DeployTarget]:
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, member in members:
        yield value, key
        yield from _places(member)


def change_somewhere(document: Any, data: st.DataObject, values: Sequence[Any]) -> Any:
    """Return the document with one value replaced by one of `values` or removed, or with an unknown key added."""
    holder, key = data.draw(st.sampled_from([*_places(document)]), label="place")
    match data.draw(st.sampled_from(["put", "put", "put", "remove", "add"]), label="change"):
        case "remove":
            del holder[key]
        case "add" if isinstance(holder, dict):
            holder["unknown_key"] = data.draw(st.sampled_from(values), label="value")
        case _:
            holder[key] = data.draw(st.sampled_from(values), label="value")
    return document
