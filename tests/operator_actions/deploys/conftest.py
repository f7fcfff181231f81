"""An installation that the actions of the command line work on, on both databases."""

from tests.support.prepared_project import database_url, managed, prepared_project

__all__ = ["database_url", "managed", "prepared_project"]
