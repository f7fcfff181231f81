"""Translates errors of both databases: the database is unavailable, or a referenced row was removed."""

from sqlalchemy import event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, ProgrammingError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from pipeline_contracts.errors import StorageUnavailable

# SQLSTATE classes of Postgres for a server that is unreachable, starting, stopping, full, or has cancelled a statement.
_UNAVAILABLE_CLASSES = ("08", "53", "57", "58")
# Serialization failure, deadlock, lock not available, and a primary that has become a standby.
_UNAVAILABLE_STATES = ("40001", "40P01", "55P03", "25006")
_FOREIGN_KEY_STATE = "23503"
# Undefined table and column: the schema is older than this version; `pharos migrate` upgrades it.
_OUTDATED_STATES = ("42P01", "42703")


class DatabaseUnavailable(SQLAlchemyError, StorageUnavailable):
    """The database is unreachable or has cancelled a statement. Nothing was changed unless a commit was in progress."""


class BrokenReference(IntegrityError):
    """A foreign key was violated, because another transaction removed or added a row. Nothing was changed."""


def translate_errors(engine: AsyncEngine) -> None:
    """Translate errors of the engine: transient ones to `DatabaseUnavailable`, violations of foreign keys to
    `BrokenReference`.

    Errors of a statement or its values, and `sqlalchemy.exc.TimeoutError` of the pool, stay as they are.
    """
    event.listen(engine.sync_engine, "handle_error", _translate)


def is_disk_full(error: DatabaseUnavailable) -> bool:
    """Return True if SQLite found no space on the disk."""
    return "disk is full" in str(error)


def is_schema_outdated(error: ProgrammingError) -> bool:
    """Return True if a table or column is missing in Postgres. (SQLite raises an `OperationalError` for this.)"""
    return getattr(error.orig, "sqlstate", None) in _OUTDATED_STATES


def _translate(context: ExceptionContext) -> DatabaseUnavailable | BrokenReference | None:
    found, wrapped = context.original_exception, context.sqlalchemy_exception
    if isinstance(found, OSError):
        # asyncpg's time limit of a call (a TimeoutError), which SQLAlchemy does not know as an error of the driver.
        # The statement may still run on the server, so drop this connection but keep the others of the pool.
        context.is_disconnect = True
        context.invalidate_pool_on_disconnect = False
        return DatabaseUnavailable(f"The database does not answer now ({driver_message(found)}).")
    if isinstance(wrapped, DBAPIError) and (
        context.is_disconnect or isinstance(wrapped, OperationalError) or _is_unavailable_in_postgres(found)
    ):
        # Not the text of `wrapped`, which contains the statement and its values.
        return DatabaseUnavailable(f"The database does not answer now ({driver_message(found)}).")
    if isinstance(wrapped, IntegrityError) and _is_foreign_key_violation(found):
        # Without the statement and its values, which the text of `wrapped` contains.
        return BrokenReference(None, None, found)
    return None


def _is_foreign_key_violation(error: BaseException) -> bool:
    if getattr(error, "sqlite_errorname", None) == "SQLITE_CONSTRAINT_FOREIGNKEY":
        return True
    return getattr(error, "sqlstate", None) == _FOREIGN_KEY_STATE


def _is_unavailable_in_postgres(error: BaseException) -> bool:
    # A statement prepared before a migration. SQLAlchemy drops it, and the next call prepares it again.
    if type(error).__name__ == "InvalidCachedStatementError":
        return True
    state: str | None = getattr(error, "sqlstate", None)
    return state is not None and (state[:2] in _UNAVAILABLE_CLASSES or state in _UNAVAILABLE_STATES)


def driver_message(error: BaseException) -> str:
    """Return the message of the driver in one line."""
    # SQLAlchemy wraps the errors of asyncpg, which have no `pgcode`.
    driver_error = error.__cause__ if error.__cause__ is not None and hasattr(error, "pgcode") else error
    text = str(driver_error.args[-1]) if driver_error.args else ""
    return text.partition("\n")[0].strip() or type(driver_error).__name__
