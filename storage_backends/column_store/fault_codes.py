"""ClickHouse's error codes, grouped by whether a retry may succeed."""

from clickhouse_connect.driver.exceptions import DatabaseError

from pipeline_contracts.errors import InsertTooLate, RowsRefused, StorageUnavailable
from storage_backends.column_store.interface import QueryRefused

# Errors of the parser and of types: a retry of the same rows fails too. Any other error of an insert may be temporary.
_DATA_FAULTS = frozenset({6, 26, 27, 33, 38, 41, 53, 69, 70, 72, 117, 131, 349, 467, 691})
# The only constraint of our tables is `inserted_in_time`.
_CONSTRAINT_VIOLATED = 469
# Errors of a query whose cause is the engine, the machine or the database user, not the text of the query.
_ENGINE_FAULTS = frozenset(
    {159, 173, 192, 193, 194, 202, 209, 210, 236, 241, 242, 243, 252, 319, 425, 497, 516, 999, 1000, 1001}
)
# The result exceeds `max_result_bytes`, a limit that queries of Pharos set for themselves.
_TOO_LARGE = 396
# An unknown column, table or database. All of them exist for the queries of Pharos once `pharos migrate` has run.
_SCHEMA_FAULTS = frozenset({16, 47, 60, 81})


def fault_code(error: DatabaseError) -> int | None:
    """Return ClickHouse's error code. None if the error is one of the connection."""
    code = getattr(error, "code", None)
    return code if isinstance(code, int) else None


def query_fault(error: DatabaseError) -> QueryRefused | StorageUnavailable:
    """Return the exception for a failed query of Pharos. Its type says whether a retry may succeed."""
    code = fault_code(error)
    if code in _SCHEMA_FAULTS:
        return StorageUnavailable(
            f"The column store is empty or of another version: run `pharos migrate`. {error}"
        )
    if code == _TOO_LARGE:
        return StorageUnavailable(f"The result is too large: {error}")
    return operator_query_fault(error)


def operator_query_fault(error: DatabaseError) -> QueryRefused | StorageUnavailable:
    """Return the exception for a failed query of an operator, which may name unknown tables."""
    if fault_code(error) in _ENGINE_FAULTS:
        return StorageUnavailable(f"The query failed: {error}")
    return QueryRefused(str(error))


def insert_fault(error: DatabaseError) -> RowsRefused | StorageUnavailable:
    """Return the exception for a failed insert. Its type says whether a retry may succeed."""
    code = fault_code(error)
    if code == _CONSTRAINT_VIOLATED:
        return InsertTooLate(f"The store refused the insert: it came too late. {error}")
    if code in _DATA_FAULTS:
        return RowsRefused(str(error))
    return StorageUnavailable(f"The insert failed: {error}")
