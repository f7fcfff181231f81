"""Sessions of a migrated database, on SQLite and on Postgres."""

from tests.support.control_fixtures import engines_are_cheap, patience, sessions

__all__ = ["engines_are_cheap", "patience", "sessions"]
