"""Orders the spans of a trace: each span follows its parent and has a depth."""

from collections.abc import Sequence
from typing import NamedTuple


class PlacedSpan(NamedTuple):
    """A span and its place in the tree."""

    place: int
    """The index of the span in the given sequence."""
    depth: int
    """The depth of the span. 0 if its parent is not in the trace."""


def span_tree(spans: Sequence[tuple[str, str]]) -> list[PlacedSpan]:
    """Return the spans in depth-first order; siblings stay in the given order. `spans` are pairs of ID and parent's ID;
    IDs are unique.

    A span has depth 0 if its parent is not in `spans`, or if it is the first span of a cycle.
    """
    places = {span_id: place for place, (span_id, _) in enumerate(spans)}
    children: dict[int, list[int]] = {}
    roots: list[int] = []
    for place, (_, parent_id) in enumerate(spans):
        parent = places.get(parent_id)
        if parent is None or parent == place:
            roots.append(place)
        else:
            children.setdefault(parent, []).append(place)
    placed: list[PlacedSpan] = []
    seen = [False] * len(spans)
    # A span that no root leads to is part of a cycle, or is below one.
    for root in (*roots, *range(len(spans))):
        waiting = [] if seen[root] else [(root, 0)]
        while waiting:
            place, depth = waiting.pop()
            if seen[place]:
                continue
            seen[place] = True
            placed.append(PlacedSpan(place, depth))
            waiting += ((child, depth + 1) for child in reversed(children.get(place, ())))
    return placed
