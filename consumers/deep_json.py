"""Reads JSON that the edge has just managed to read, whatever stack this code runs on."""

import sys
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# Python's limit counts the frames below a call. The edge decodes with fewer frames below it than a consumer; and for
# each level that it decodes, a transform goes through up to three frames.
_MORE_LEVELS = 4000


def read_deep(read: Callable[[], T]) -> T:
    """The result of `read`, which is called again with a higher limit if it exceeds the recursion limit.

    What was accepted has to be stored: a body nested to the limit of the edge's decoder must not fail here. `read` must
    have no side effects, and be synchronous: the limit is that of the process.
    """
    try:
        return read()
    except RecursionError:
        limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + _MORE_LEVELS)
    try:
        return read()
    finally:
        sys.setrecursionlimit(limit)
