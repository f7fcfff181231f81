"""Decodes JSON that is nested as deeply as the edge accepts, even though a consumer's call stack is deeper than the
edge's."""

import sys
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# The edge decodes on a shallower stack than a consumer, and a transform uses up to three frames for each level of
# nesting.
_EXTRA_FRAMES = 4000


def call_with_deeper_stack(decode: Callable[[], T]) -> T:
    """Return the result of `decode`. If `decode` exceeds the recursion limit, call it again with a higher limit.

    Every accepted body must be stored, even if it is nested to the limit of the edge's decoder. `decode` must be
    synchronous and free of side effects: the recursion limit belongs to the whole process.
    """
    try:
        return decode()
    except RecursionError:
        limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + _EXTRA_FRAMES)
    try:
        return decode()
    finally:
        sys.setrecursionlimit(limit)
