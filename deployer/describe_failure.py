"""Why a deployer does nothing, or leaves applications as they are: one sentence for readiness."""

from collections.abc import Sequence

from sqlalchemy.exc import DatabaseError, InternalError, SQLAlchemyError

from control_api.database_errors import DatabaseAway, reason


def describe_database_error(error: SQLAlchemyError) -> str:
    """Return the cause in the driver's words, without statements and values, which the text of most errors holds."""
    if isinstance(error, DatabaseAway):
        return str(error)
    # SQLite's for a damaged file, which is of no closer kind.
    if type(error) in (DatabaseError, InternalError) and isinstance(error, DatabaseError) and error.orig:
        return f"The database does not work ({reason(error.orig)})."
    if isinstance(error, DatabaseError):
        return "The database refused a statement: the deployer's log says which."
    return "The database does not answer."


def describe_untaken(count: int) -> str:
    """Of environments that are leased under this deployer's ID and another name."""
    return (
        f"{count} {'environment is' if count == 1 else 'environments are'} held by a deployer with this identity and "
        "another name: after a move or with a new container this ends by itself in 15 s; only if the folder was copied "
        "and the other deployer is to go on, give this one an empty folder"
    )


def describe_problems(problems: Sequence[str], environments: int) -> str:
    """Of environments that cannot be kept as they are wanted."""
    return f"left as they are: {len(problems)} of {environments} environments, such as: {problems[0]}"
