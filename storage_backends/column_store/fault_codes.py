"""ClickHouse's error codes, by what they mean for a retry."""

from clickhouse_connect.driver.exceptions import DatabaseError

from pipeline_contracts.errors import InsertTooLate, RowsRefused, StorageUnavailable

# Rows that no repetition makes right: what the parser of the input format and the types answer.
# Any other fault of an insert may pass.
_DATA_FAULTS = frozenset({6, 26, 27, 33, 38, 41, 53, 69, 70, 72, 117, 131, 349, 467, 691})
# The only constraint of our tables is `inserted_in_time`.
_CONSTRAINT_VIOLATED = 469
# Faults of a query that lie with the engine, the machine or the account there, not with the query's text.
ENGINE_FAULTS = frozenset(
    {159, 173, 192, 193, 194, 202, 209, 210, 236, 241, 242, 243, 252, 319, 425, 516, 999, 1000, 1001}
)


def fault_code(error: DatabaseError) -> int | None:
    """Return ClickHouse's number for the fault; None if it is the connection's."""
    code = getattr(error, "code", None)
    return code if isinstance(code, int) else None


def insert_fault(error: DatabaseError) -> RowsRefused | StorageUnavailable:
    """Return what the fault of an insert means for a retry."""
    code = fault_code(error)
    if code == _CONSTRAINT_VIOLATED:
        return InsertTooLate(f"The store refused the insert: it came too late. {error}")
    if code in _DATA_FAULTS:
        return RowsRefused(str(error))
    return StorageUnavailable(f"The insert failed: {error}")
