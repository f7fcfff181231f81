"""Runs queries that an operator has written on the embedded engine.

Each query runs in a session of its own, which is closed afterwards, so that settings, the current database and limits
do not outlive the query. A shared session is impossible, because the engine refuses to reset `readonly`.
"""

import contextlib
import re
from collections.abc import Callable
from typing import Any

from clickhouse_connect.driver.exceptions import ClickHouseError, DatabaseError

from pipeline_contracts.errors import StorageUnavailable
from storage_backends.column_store.interface import QueryRefused

# The engine runs in the process that accepts telemetry, so a careless query must not use up its memory or its cores.
# `readonly` comes last: after it, nothing can be set.
_LIMITS = {
    "max_threads": 2,
    "max_execution_time": 60,
    "max_memory_usage": 1024 * 2**20,
    "max_result_bytes": 64 * 2**20,
    "readonly": 1,
}
# The engine streams the rows of these statements. All others return few rows.
_STREAMED = ("SELECT", "WITH")
_CHUNK_BYTES = 2**20
_READING = ("SELECT", "WITH", "SHOW", "DESCRIBE", "EXPLAIN", "EXISTS")
# `formatQuery` writes each of these at the beginning of a line, and no other text there: literals and quoted names
# have their line breaks escaped.
_CLAUSE = re.compile(r"^(INTO OUTFILE|FORMAT|PARALLEL WITH)\b", re.MULTILINE)


def query_once(open_session: Callable[[], Any], sql: str) -> bytes:
    """Run one reading query in a new session. Return the rows as JSON, one row per line. Blocking.

    Raises `QueryRefused` for a statement that does anything but read, and for a query that the engine refuses or that
    exceeds a limit; `StorageUnavailable` when no session can be opened.
    """
    try:
        session = open_session()
    except (ClickHouseError, RuntimeError, OSError) as error:
        raise StorageUnavailable(f"No session for the query: {error}") from error
    try:
        statement = _check_statement(session, sql)
        for name, value in _LIMITS.items():
            session.command(f"SET {name} = {value}")
        return _read_rows(session, statement)
    except DatabaseError as error:
        raise QueryRefused(str(error)) from error
    except ClickHouseError as error:
        raise StorageUnavailable(f"The query failed: {error}") from error
    finally:
        session.close()


def _read_rows(session: Any, statement: str) -> bytes:
    """Return the rows as JSON. Raises `QueryRefused` if the JSON has more than `max_result_bytes`.

    The engine applies this limit only to the values of its columns, but JSON repeats the names of columns in each row:
    64 MiB of one-byte numbers become gigabytes of text.
    """
    if statement.split(maxsplit=1)[0] not in _STREAMED:
        whole: bytes = session.raw_query(statement, fmt="JSONEachRow")
        return whole
    most = _LIMITS["max_result_bytes"]
    rows = bytearray()
    with contextlib.closing(session.raw_stream(statement, fmt="JSONEachRow")) as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            rows += chunk
            if len(rows) > most:
                raise QueryRefused(
                    f"The result has more than {most / 2**20:g} MiB as JSON. Add a LIMIT, or select fewer columns."
                )
    return bytes(rows)


def _check_statement(session: Any, sql: str) -> str:
    """Return the statement as the engine's own parser understands it. Raises `QueryRefused` unless it is one statement
    that reads.

    `readonly` alone is not enough: it lets KILL QUERY end the inserts and reports of this process, and INTO OUTFILE
    overwrite files.
    """
    formatted = session.query("SELECT formatQuery({sql:String})", parameters={"sql": sql})
    statement = str(formatted.first_row[0])
    kind = statement.split(maxsplit=1)[0]
    if kind not in _READING:
        raise QueryRefused(f"`pharos query` runs one reading query ({', '.join(_READING)}), not {kind}.")
    if clause := _CLAUSE.search(statement):
        raise QueryRefused(f"Remove {clause[0]} from the query: `pharos query` prints the rows itself.")
    return statement
