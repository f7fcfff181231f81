"""Describes errors of the database for an operator of the machine."""

from sqlalchemy.exc import DBAPIError, ProgrammingError, SQLAlchemyError

from control_domain.database.errors import DatabaseUnavailable, driver_message, is_schema_outdated


def describe_database_error(error: SQLAlchemyError) -> str:
    """Return the message of an error for an operator, without the statement and its values, which may be secrets."""
    if isinstance(error, DatabaseUnavailable):
        return str(error)
    if isinstance(error, ProgrammingError) and is_schema_outdated(error):
        return "The database has no tables of this version: run `pharos migrate`, or correct PHAROS_DATABASE_URL."
    if isinstance(error, DBAPIError):
        return f"The database refused a statement ({driver_message(error.orig or error)})."
    return f"The database cannot be used ({driver_message(error)})."
