"""Describes, in one sentence for the readiness check, why a deployer does nothing or leaves applications unchanged."""

from collections.abc import Sequence

from sqlalchemy.exc import DatabaseError, InternalError, SQLAlchemyError

from control_domain.database.errors import DatabaseUnavailable, driver_message


def describe_database_error(error: SQLAlchemyError) -> str:
    """Return the message of the database driver, without the SQL statements and values that most error texts
    contain."""
    if isinstance(error, DatabaseUnavailable):
        return str(error)
    # SQLite raises these general errors for a damaged file.
    if type(error) in (DatabaseError, InternalError) and isinstance(error, DatabaseError) and error.orig:
        return f"The database does not work ({driver_message(error.orig)})."
    if isinstance(error, DatabaseError):
        return "The database refused a statement: the deployer's log says which."
    return "The database does not answer."


def describe_untaken(count: int) -> str:
    """Describe environments whose lease names this deployer's ID and a different name."""
    return (
        f"{count} {'environment is' if count == 1 else 'environments are'} held by a deployer with this identity and "
        "another name: after a move or with a new container this ends by itself in 15 s; only if the folder was copied "
        "and the other deployer is to go on, give this one an empty folder"
    )


def describe_problems(problems: Sequence[str], environments: int) -> str:
    """Describe environments that the deployer cannot bring to their desired state."""
    return f"left as they are: {len(problems)} of {environments} environments, such as: {problems[0]}"
