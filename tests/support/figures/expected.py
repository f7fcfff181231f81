"""The texts of an API response that a page is expected to show."""

from collections.abc import Callable, Iterable
from typing import Any

Reader = Callable[[Any], Iterable[list[str]]]
"""Returns lists of texts from the member `data` of a response. The texts of one list are in one row, tile or line of
the page. A time is written as the API writes it."""
Shown = dict[str, Reader]
"""Readers by the path of the response below `/api/v1/`, a regular expression of the whole path."""
