"""Which pages, sources, links and so on had the most visitors in a period?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, get_args

from analytics_queries.telemetry.limited_sql import query_limited, read_limited_statements, run_together
from analytics_queries.visit_analysis.conditions import filter_visits
from analytics_queries.visit_analysis.request import AnalysisRequest
from analytics_queries.visits.calendar_days import Period
from analytics_queries.visits.report_rows import Entry
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_statements(__file__)

ListName = Literal[
    "pages",
    "entry_pages",
    "exit_pages",
    "sources",
    "campaigns",
    "countries",
    "devices",
    "browsers",
    "operating_systems",
    "outbound_links",
    "file_downloads",
    "missing_pages",
]
LIST_NAMES: tuple[ListName, ...] = get_args(ListName)

_COLUMNS: Mapping[str, str] = {
    "entry_pages": "entry_page",
    "exit_pages": "exit_page",
    "sources": "source",
    "campaigns": "campaign",
    "countries": "country",
    "devices": "device",
    "browsers": "browser",
    "operating_systems": "os",
}
_ACTIONS: Mapping[str, str] = {
    "outbound_links": "Outbound Link: Click",
    "file_downloads": "File Download",
    "missing_pages": "404",
}


@dataclass(frozen=True, slots=True)
class EntriesOfList:
    """The first entries of a list, sorted by visitors, the most first. Also the number of all entries of
    the list."""

    entries: Sequence[Entry]
    total: int


async def entries_of_lists(
    store: ColumnStore,
    request: AnalysisRequest,
    period: Period,
    runs: Mapping[date, int],
    names: Sequence[ListName],
    search: str,
    limit: int,
) -> Mapping[ListName, EntriesOfList]:
    """Return up to `limit` entries of each list whose names contain `search`, in upper or lower case.

    Raises `StorageUnavailable`.
    """
    parameters: dict[str, Any] = request.parameters(period, runs)
    is_filtered = bool(request.conditions)
    parameters |= {
        "search": search,
        "limit": limit,
        "is_counted": is_filtered,
        "list_runs": [] if is_filtered else parameters["runs"],
    }
    of_visits = [name for name in names if name in _COLUMNS]
    others = [name for name in names if name not in _COLUMNS]
    reads = [_read_list(store, request, name, parameters) for name in others]
    if of_visits:
        reads.append(_read_visit_lists(store, request, of_visits, parameters))
    rows = [row for part in await run_together(*reads) for row in part]
    found: dict[ListName, EntriesOfList] = {}
    for name in names:
        of_list = [row for row in rows if row[0] == name]
        entries = [Entry(entry, int(visitors), int(number)) for _, entry, visitors, number, _ in of_list]
        found[name] = EntriesOfList(entries, int(of_list[0][4]) if of_list else 0)
    return found


async def _read_visit_lists(
    store: ColumnStore, request: AnalysisRequest, names: Sequence[ListName], parameters: Mapping[str, Any]
) -> Sequence[Sequence[Any]]:
    """Read all lists that are columns of visits with one query, so that each visit is read once."""
    columns = [_COLUMNS[name] for name in names]
    lists = ", ".join(f"grouping({_COLUMNS[name]}) = 0, '{name}'" for name in names)
    sql = filter_visits(_SQL["visit_lists"], request.conditions)
    sql = sql.replace("{list}", f"multiIf({lists}, '')")
    # In a row of the result, columns by which the row is not grouped are empty strings.
    sql = sql.replace("{entry}", f"concat({', '.join(f'toString({column})' for column in columns)}, '')")
    sql = sql.replace("{grouping_sets}", ", ".join(f"({column})" for column in columns))
    return (await query_limited(store, sql, {**parameters, "lists": list(names)})).rows


async def _read_list(
    store: ColumnStore, request: AnalysisRequest, name: ListName, parameters: Mapping[str, Any]
) -> Sequence[Sequence[Any]]:
    asked = {**parameters, "list": name}
    statement = "page_list"
    if name in _ACTIONS:
        statement, asked["action"] = "action_list", _ACTIONS[name]
    rows = (await query_limited(store, filter_visits(_SQL[statement], request.conditions), asked)).rows
    return [(name, *row) for row in rows]
