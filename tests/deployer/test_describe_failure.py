"""Readiness reports the driver's message, and never a statement with its values."""

import sqlite3

import pytest
from sqlalchemy.exc import DatabaseError, IntegrityError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from control_domain.database.errors import DatabaseUnavailable
from deployer.describe_failure import describe_database_error

_STATEMENT = ("SELECT secret", ("value",))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (DatabaseUnavailable("The database does not answer now (database or disk is full)."), "disk is full"),
        (
            DatabaseError(*_STATEMENT, sqlite3.DatabaseError("database disk image is malformed")),
            "database disk image is malformed",
        ),
        (IntegrityError(*_STATEMENT, sqlite3.IntegrityError("value is not unique")), "refused a statement"),
        (PoolTimeout("QueuePool limit"), "does not answer"),
    ],
)
def test_a_database_error_is_described_without_its_statement(error: SQLAlchemyError, message: str) -> None:
    described = describe_database_error(error)
    assert message in described and "secret" not in described and "value" not in described
