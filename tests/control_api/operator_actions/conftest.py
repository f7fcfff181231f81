"""An installation that an operator's actions work on, on both databases."""

from tests.support.prepared_project import database_url, operated, prepared_project

__all__ = ["database_url", "operated", "prepared_project"]
