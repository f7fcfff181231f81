"""Which pages, sources, links and so on had the most visitors in a period?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, get_args

from analytics_queries.telemetry.limited_sql import query_limited, read_limited_statements
from analytics_queries.visit_analysis.conditions import filter_visits
from analytics_queries.visit_analysis.request import AnalysisRequest
from analytics_queries.visits.calendar_days import Period
from analytics_queries.visits.site_report import Entry
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
    """The first entries of a list, the most visitors first, and how many it has."""

    entries: Sequence[Entry]
    total: int


async def entries_of_list(
    store: ColumnStore,
    request: AnalysisRequest,
    period: Period,
    runs: Mapping[date, int],
    name: ListName,
    search: str,
    limit: int,
) -> EntriesOfList:
    """Return up to `limit` entries of the list whose names contain `search`, in any case.

    Raises `StorageUnavailable`.
    """
    parameters: dict[str, Any] = request.parameters(period, runs)
    is_filtered = bool(request.conditions)
    parameters |= {
        "list": name,
        "search": search,
        "limit": limit,
        "is_counted": is_filtered,
        "list_runs": [] if is_filtered else parameters["runs"],
    }
    statement = "page_list"
    if name in _COLUMNS:
        statement, parameters["column"] = "visit_list", _COLUMNS[name]
    elif name in _ACTIONS:
        statement, parameters["action"] = "action_list", _ACTIONS[name]
    sql = filter_visits(_SQL[statement], request.conditions)
    rows = (await query_limited(store, sql, parameters)).rows
    entries = [Entry(entry, int(visitors), int(number)) for entry, visitors, number, _ in rows]
    return EntriesOfList(entries, int(rows[0][3]) if rows else 0)
