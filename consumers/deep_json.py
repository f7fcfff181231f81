"""Decodes any JSON that the edge could decode, however deep the call stack of the consumer is."""

import sys
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# The edge decodes on a shallower stack than a consumer, and a transform uses up to three frames for each level of
# nesting.
_EXTRA_FRAMES = 4000


def call_with_deeper_stack(decode: Callable[[], T]) -> T:
    """Return the result of `decode`; call it a second time with a higher limit if it exceeds the recursion limit.

    Every accepted body must be stored, also one nested to the limit of the edge's decoder. `decode` must be synchronous
    and free of side effects: the recursion limit belongs to the whole process.
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
