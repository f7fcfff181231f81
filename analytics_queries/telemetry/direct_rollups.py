"""Reads rollups directly, as if they were tables. A rollup is a projection: rows of a table that the engine has
aggregated (decision 50). The engine can use a projection for a query, but first checks each projection of each part,
which takes most of the time of a short read (decision 53). The statements in `.sql` files read the table. Once all data
parts have the projection, this module rewrites a statement so that it reads the projection directly."""

import logging
import re
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from analytics_queries.telemetry.limited_sql import LIMITS, query_limited
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.column_store.interface import ColumnStore, QueryRefused, QueryResult
from storage_backends.sql_files import read_statements

logger = logging.getLogger(__name__)

_SQL = read_statements(__file__)
_REFRESH_SECONDS = 60.0
_COMMENTS = re.compile(r"^\s*--.*\n", re.MULTILINE)
_SPACES = re.compile(r"\s+")

# With the engine's default for this setting, the engine does not recognize the expressions of rollups.
_READ_ROLLUPS = ", optimize_functions_to_subcolumns = 0"
# With the engine's default for this setting, one query could not read both a rollup and its table, because they have
# the same name.
_READ_DIRECTLY = ", enable_shared_storage_snapshot_in_query = 0"

_QUANTILES = "quantilesDDStateIf(0.01, 0.5, 0.95, 0.99)"
_SPAN_MS = "least(greatest(divide(Duration, 1000000.), 0.000001), 1000000000.)"
# Expressions in statements, and the columns of rollups that contain their values. The engine names such a column by its
# expression.
_KEYS = {
    **{
        f"{function}({time})": f"`{function}({time})`"
        for function in ("toStartOfMinute", "toStartOfHour", "toDate")
        for time in ("timestamp", "Timestamp", "occurred_at")
    },
    "multiIf(type = 'request', substringUTF8(if(notEmpty(route), route, name), 1, 500), "
    "type = 'job', substringUTF8(name, 1, 500), "
    "type = 'query', substringUTF8(if(notEmpty(title), title, name), 1, 500), '')": (
        "`multiIf(equals(type, 'request'), substringUTF8(if(notEmpty(route), route, name), 1, 500), "
        "equals(type, 'job'), substringUTF8(name, 1, 500), "
        "equals(type, 'query'), substringUTF8(if(notEmpty(title), title, name), 1, 500), '')`"
    ),
    "multiIf(SpanKind IN ('Server', 'Consumer'), substringUTF8(SpanName, 1, 500), SpanKind = 'Client' "
    "AND (notEmpty(SpanAttributes['db.system.name']) OR notEmpty(SpanAttributes['db.system'])), "
    "substringUTF8(multiIf(notEmpty(SpanAttributes['db.query.text']), SpanAttributes['db.query.text'], "
    "notEmpty(SpanAttributes['db.statement']), SpanAttributes['db.statement'], SpanName), 1, 500), '')": (
        "`multiIf(in(SpanKind, ('Server', 'Consumer')), substringUTF8(SpanName, 1, 500), "
        "and(equals(SpanKind, 'Client'), or(notEmpty(arrayElement(SpanAttributes, 'db.system.name')), "
        "notEmpty(arrayElement(SpanAttributes, 'db.system')))), "
        "substringUTF8(multiIf(notEmpty(arrayElement(SpanAttributes, 'db.query.text')), "
        "arrayElement(SpanAttributes, 'db.query.text'), notEmpty(arrayElement(SpanAttributes, 'db.statement')), "
        "arrayElement(SpanAttributes, 'db.statement'), SpanName), 1, 500), '')`"
    ),
}
_FIGURES = {
    "count()": "countMerge(`count()`)",
    "countIf(ifNull(status_code, 0) >= 500 OR severity IN ('error', 'critical'))": (
        "countIfMerge(`countIf(or(greaterOrEquals(ifNull(status_code, 0), 500), "
        "in(severity, ('error', 'critical'))))`)"
    ),
    "countIf(NOT is_event)": "countIfMerge(`countIf(not(is_event))`)",
    "uniqCombinedIf(visitor, NOT is_event OR name NOT IN ('Web Vital', 'Engagement'))": (
        "uniqCombinedIfMerge(`uniqCombinedIf(visitor, or(not(is_event), "
        "notIn(name, ('Web Vital', 'Engagement'))))`)"
    ),
    "countIf(StatusCode = 'Error')": "countIfMerge(`countIf(equals(StatusCode, 'Error'))`)",
    "sum(least(greatest(ifNull(duration_ms, 0), 0), 1e9))": (
        "sumMerge(`sum(least(greatest(ifNull(duration_ms, 0), 0), 1000000000.))`)"
    ),
    "sum(least(greatest(Duration / 1e6, 0), 1e9))": (
        "sumMerge(`sum(least(greatest(divide(Duration, 1000000.), 0), 1000000000.))`)"
    ),
    f"{_QUANTILES}(least(greatest(ifNull(duration_ms, 0), 0.000001), 1e9), isNotNull(duration_ms))": (
        f"quantilesDDStateIfMerge(0.01, 0.5, 0.95, 0.99)(`{_QUANTILES}"
        "(least(greatest(ifNull(duration_ms, 0), 0.000001), 1000000000.), isNotNull(duration_ms))`)"
    ),
    **{
        f"{_QUANTILES}(least(greatest(Duration / 1e6, 0.000001), 1e9), SpanKind IN ({kinds}))": (
            f"quantilesDDStateIfMerge(0.01, 0.5, 0.95, 0.99)(`{_QUANTILES}({_SPAN_MS}, in(SpanKind, ({kinds})))`)"
        )
        for kinds in ("'Server', 'Consumer'", "'Server', 'Consumer', 'Client'")
    },
}
_COLUMNS = {**_KEYS, **_FIGURES}
_KNOWN_COLUMNS = {text.split("`")[1] for text in _COLUMNS.values()}
_EXPRESSIONS = re.compile("|".join(map(re.escape, sorted(_COLUMNS, key=len, reverse=True))))


class Rollup(NamedTuple):
    """A projection that contains aggregated rows of a table."""

    table: str
    name: str


class Source(NamedTuple):
    """A SELECT that reads rows of a table, and the rollup that gives the same result. None if there is no such
    rollup."""

    text: str
    rollup: Rollup | None = None


_UNITS = ("minute", "hour", "day")
ROLLUPS = frozenset(
    {
        *(
            Rollup(table, f"{what}_by_{unit}")
            for table in ("telemetry_events", "otel_traces")
            for what, units in (("requests", _UNITS), ("calls", _UNITS[1:]))
            for unit in units
        ),
        Rollup("otel_logs", "records_by_minute"),
        Rollup("pageviews", "views_by_hour"),
    }
)
_found: WeakKeyDictionary[ColumnStore, tuple[float, frozenset[Rollup]]] = WeakKeyDictionary()


async def direct_rollups(store: ColumnStore) -> frozenset[Rollup]:
    """Return the rollups that can be read directly, because all data parts of their table have them.

    If a part was stored before the rollup was introduced, the store adds the rollup in the background. Replicated
    tables are never read directly. The result is cached for a minute: parts do not lose rollups while Pharos runs.
    """
    looked, found = _found.get(store, (0.0, frozenset[Rollup]()))
    if monotonic() - looked > _REFRESH_SECONDS or store not in _found:
        found = await _find(store)
        _found[store] = (monotonic(), found)
    return found


async def _find(store: ColumnStore) -> frozenset[Rollup]:
    parameters = {"tables": sorted({rollup.table for rollup in ROLLUPS})}
    try:
        rows = (await query_limited(store, _SQL["complete"] + LIMITS, parameters)).rows
        complete = {Rollup(*row) for row in rows} & ROLLUPS
        columns = {rollup: await _read_columns(store, rollup) for rollup in sorted(complete)}
    except (QueryRefused, StorageUnavailable) as error:
        # A server may not allow its users to read projections or system tables. If the server is unreachable, the query
        # itself fails.
        logger.info("rollups are not read directly: %s", error)
        return frozenset()
    # Another version of the engine may give these columns other names.
    return frozenset(rollup for rollup, names in columns.items() if names <= _KNOWN_COLUMNS)


async def _read_columns(store: ColumnStore, rollup: Rollup) -> set[str]:
    """Return the names of those columns of the rollup that are expressions."""
    name = _name(rollup)
    await query_limited(store, f"SELECT 1 FROM {name} LIMIT 1{LIMITS}", {}, _READ_DIRECTLY)
    rows = (await query_limited(store, f"DESCRIBE TABLE {name}{LIMITS}", {}, _READ_DIRECTLY)).rows
    return {row[0] for row in rows if not row[0].isidentifier()}


def _name(rollup: Rollup) -> str:
    return f"mergeTreeProjection('pharos', '{rollup.table}', '{rollup.name}')"


def read_directly(text: str, rollup: Rollup) -> str:
    """Return the statement, changed so that it reads the rollup instead of the table. The statement must use the
    expressions of the projection."""
    plain = _SPACES.sub(" ", _COMMENTS.sub("", text)).replace("( ", "(").replace(" )", ")")
    changed = _EXPRESSIONS.sub(lambda match: _COLUMNS[match[0]], plain)
    return changed.replace(f"FROM pharos.{rollup.table}", f"FROM {_name(rollup)}")


async def query_sources(
    store: ColumnStore, sources: Sequence[Source], question: str, parameters: Mapping[str, Any]
) -> QueryResult:
    """Run a query over the rows of all sources. The query refers to these rows as `sources`. Raises
    `StorageUnavailable`."""
    direct = await direct_rollups(store)
    union = "\nUNION ALL\n".join(
        read_directly(source.text, source.rollup) if source.rollup in direct else source.text
        for source in sources
    )
    rollups = {source.rollup for source in sources if source.rollup}
    is_planned = bool(rollups - direct)
    # Older servers do not know this setting. They do not read rollups directly either.
    settings = (_READ_DIRECTLY if rollups & direct else "") + (_READ_ROLLUPS if is_planned else "")
    sql = f"WITH sources AS\n(\n{union}\n)\n{question}{LIMITS}"
    return await query_limited(store, sql, parameters, settings, uses_projections=is_planned)
