"""A project with people and a repository, on both databases."""

from tests.support.prepared_project import managed, prepared_project

__all__ = ["managed", "prepared_project"]
