"""A project whose configuration changes it, on both databases."""

from tests.support.configuration_fixtures import (
    begun,
    configured,
    platform,
    prepared,
    prepared_begun,
    prepared_project,
    reviewed,
)

__all__ = ["begun", "configured", "platform", "prepared", "prepared_begun", "prepared_project", "reviewed"]
