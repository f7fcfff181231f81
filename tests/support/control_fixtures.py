"""Fixtures of tests that use the control plane's database, on SQLite and on Postgres."""

from collections.abc import AsyncIterator, Iterator

import pytest

from control_api.requests import json_body
from control_domain.database import engine as database
from control_domain.database import postgres
from control_domain.database.engine import Sessions, open_engine, open_sessions
from ingest_edge import app as edge
from storage_backends.monitor_states import postgres as states_in_postgres
from storage_backends.monitor_states import sqlite as states_in_sqlite
from tests.support.cheap_engines import engines_are_cheap

__all__ = ["engines_are_cheap", "patience", "sessions"]

# Longer than any test takes.
_LIMIT_SECONDS = 120


@pytest.fixture(scope="module", autouse=True)
def patience() -> Iterator[None]:
    """Raise the time limits of databases and requests, so that a slow machine rejects no caller.

    A test of such a limit sets the limit itself.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "_BUSY_SECONDS", _LIMIT_SECONDS)
        for name in ("_POOL_SECONDS", "_CONNECT_SECONDS", "_PING_SECONDS"):
            patch.setattr(postgres, name, float(_LIMIT_SECONDS))
        patch.setattr(states_in_sqlite, "_BUSY_SECONDS", float(_LIMIT_SECONDS))
        patch.setattr(states_in_postgres, "_CONNECT_SECONDS", float(_LIMIT_SECONDS))
        patch.setattr(json_body, "_READ_TIMEOUT_SECONDS", float(_LIMIT_SECONDS))
        # A caller that is rejected before its body has arrived would lose the response.
        patch.setattr(edge, "_LINGERING_SECONDS", float(_LIMIT_SECONDS))
        yield


@pytest.fixture
async def sessions(database_url: str) -> AsyncIterator[Sessions]:
    """Yield the sessions of a migrated database."""
    engine = open_engine(database_url)
    yield open_sessions(engine)
    await engine.dispose()
