"""A project with people and a repository, on both databases."""

from tests.support.prepared_project import database_url, managed, prepared_project

__all__ = ["database_url", "managed", "prepared_project"]
