"""Pages of lists: `limit` and `cursor`, and the `next_cursor` of the response."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta

from control_api.operations.access import At
from control_domain.paging import DEFAULT_LIMIT, MAX_LIMIT, Cursors, Page
from pipeline_contracts.errors import FieldError, InvalidInput

D = TypeVar("D")


class PageQuery(msgspec.Struct, kw_only=True):
    """The parameters of a paged list; lists with filters extend it."""

    limit: Annotated[
        int, Meta(ge=1, le=MAX_LIMIT, description="The largest number of items of the page.")
    ] = DEFAULT_LIMIT
    cursor: Annotated[
        str | None,
        Meta(
            description="The unchanged `next_cursor` of the page before. 422 for an altered cursor, "
            "or one of another list."
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class PageOf(Generic[D]):
    """One page of documents: the response of a paged list."""

    items: Sequence[D]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Pages:
    """The requested page, and the cursors of its list."""

    page: Page
    _cursors: Cursors

    def answer(self, documents: Sequence[D], last_id: int | None) -> PageOf[D]:
        """Return the page. `last_id` is the ID of the last row if more rows follow, else None."""
        return PageOf(documents, None if last_id is None else self._cursors.write(last_id))


def read_pages(at: At[Any], query: PageQuery, name: str) -> Pages:
    """Return the requested page of the list `name`. Raises `InvalidInput` for a cursor of another list.

    Rows are ordered by descending ID: the page begins with the first ID below `page.before`.
    """
    cursors = at.cursors(name)
    before = None
    if query.cursor is not None:
        before = cursors.read(query.cursor)
        if before is None:
            raise _unknown_cursor()
    return Pages(Page(query.limit, before), cursors)


@dataclass(frozen=True, slots=True)
class SortedPages:
    """The requested page of a list that is not ordered by ID, and the cursors of its list."""

    limit: int
    after: str | None
    """The sort key after which the page begins; None for the first page."""
    _cursors: Cursors

    def answer(self, documents: Sequence[D], last_key: str | None) -> PageOf[D]:
        """Return the page. `last_key` is the sort key of the last row if more rows follow, else None."""
        return PageOf(documents, None if last_key is None else self._cursors.write_key(last_key))


def read_sorted_pages(at: At[Any], query: PageQuery, name: str) -> SortedPages:
    """Return the requested page of the list `name`, which is ordered by a sort key instead of the ID.

    Raises `InvalidInput` for a cursor of another list.
    """
    cursors = at.cursors(name)
    after = None
    if query.cursor is not None:
        after = cursors.read_key(query.cursor)
        if after is None:
            raise _unknown_cursor()
    return SortedPages(query.limit, after, cursors)


def _unknown_cursor() -> InvalidInput:
    return InvalidInput(
        "Fix the query parameters listed below and send the request again.",
        errors=[FieldError("cursor", "does not belong to this list; begin again without a cursor")],
    )
