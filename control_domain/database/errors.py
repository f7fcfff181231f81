"""Classes for errors of both databases that mean "not now", and for a reference to a row that is gone."""

from sqlalchemy import event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, ProgrammingError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from pipeline_contracts.errors import StorageUnavailable

# Postgres' SQLSTATEs of a server that is away, starting, stopping, full, or has given a statement up.
_AWAY_CLASSES = ("08", "53", "57", "58")
# Serialization failure, deadlock, lock not available, and a primary that has become a standby.
_AWAY_STATES = ("40001", "40P01", "55P03", "25006")
_FOREIGN_KEY_STATE = "23503"
# Undefined table and column: the database is behind this version, which `pharos migrate` mends.
_BEHIND_STATES = ("42P01", "42703")


class DatabaseUnavailable(SQLAlchemyError, StorageUnavailable):
    """The database does not answer now, or has given up; nothing was changed unless a commit was under way."""


class BrokenReference(IntegrityError):
    """A row refers to one that somebody else has removed meanwhile, or the other way round. Nothing was changed."""


def translate_errors(engine: AsyncEngine) -> None:
    """Make every error of the engine's connections that means "not now" a `DatabaseAway`, and every violation of a
    foreign key a `BrokenReference`.

    Left as they are: faults of a statement or its values, and the pool's own `sqlalchemy.exc.TimeoutError`.
    """
    event.listen(engine.sync_engine, "handle_error", _translate)


def is_schema_outdated(error: ProgrammingError) -> bool:
    """Whether a table or column is missing in Postgres. (SQLite tells this as an `OperationalError`.)"""
    return getattr(error.orig, "sqlstate", None) in _BEHIND_STATES


def _translate(context: ExceptionContext) -> DatabaseUnavailable | BrokenReference | None:
    found, wrapped = context.original_exception, context.sqlalchemy_exception
    if isinstance(found, OSError):
        # asyncpg's limit on a call (a TimeoutError), which SQLAlchemy does not know as the driver's. What the
        # server does with the statement is open: this connection cannot be used again, others may.
        context.is_disconnect = True
        context.invalidate_pool_on_disconnect = False
        return DatabaseUnavailable(f"The database does not answer now ({driver_message(found)}).")
    if isinstance(wrapped, DBAPIError) and (
        context.is_disconnect or isinstance(wrapped, OperationalError) or _is_away_in_postgres(found)
    ):
        # Not the text of `wrapped`: it holds the statement and its values.
        return DatabaseUnavailable(f"The database does not answer now ({driver_message(found)}).")
    if isinstance(wrapped, IntegrityError) and _is_of_foreign_key(found):
        # Without the statement and its values, which are in the text of `wrapped`.
        return BrokenReference(None, None, found)
    return None


def _is_of_foreign_key(error: BaseException) -> bool:
    if getattr(error, "sqlite_errorname", None) == "SQLITE_CONSTRAINT_FOREIGNKEY":
        return True
    return getattr(error, "sqlstate", None) == _FOREIGN_KEY_STATE


def _is_away_in_postgres(error: BaseException) -> bool:
    # A statement prepared before a migration; SQLAlchemy has dropped it, the next call prepares it anew.
    if type(error).__name__ == "InvalidCachedStatementError":
        return True
    state: str | None = getattr(error, "sqlstate", None)
    return state is not None and (state[:2] in _AWAY_CLASSES or state in _AWAY_STATES)


def driver_message(error: BaseException) -> str:
    """The error in one line, in the driver's own words."""
    # SQLAlchemy puts asyncpg's errors, which have no `pgcode`, under its own.
    told = error.__cause__ if error.__cause__ is not None and hasattr(error, "pgcode") else error
    text = str(told.args[-1]) if told.args else ""
    return text.partition("\n")[0].strip() or type(told).__name__
