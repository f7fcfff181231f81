"""What a page is expected to show of a response of the API."""

from collections.abc import Callable, Iterable
from typing import Any

Reader = Callable[[Any], Iterable[list[str]]]
"""Returns, of the member `data` of a response, lists of texts: those of a list are in one row, tile or line of the
page. A time is written as the API writes it."""
Shown = dict[str, Reader]
"""Readers by the path of the response below `/api/v1/`, a regular expression of the whole path."""
