"""Fixtures of the tests that use the control plane's database, on SQLite and on Postgres."""

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

# Seconds, more than any test takes.
_PATIENCE = 120


@pytest.fixture(scope="module", autouse=True)
def patience() -> Iterator[None]:
    """Nobody is turned away because the machine is slow: a hundred at once may wait for each other, and for the disk,
    longer than users would. A test of such a limit sets it itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "_BUSY_SECONDS", _PATIENCE)
        for name in ("_POOL_SECONDS", "_CONNECT_SECONDS", "_PING_SECONDS"):
            patch.setattr(postgres, name, float(_PATIENCE))
        patch.setattr(states_in_sqlite, "_BUSY_SECONDS", float(_PATIENCE))
        patch.setattr(states_in_postgres, "_CONNECT_SECONDS", float(_PATIENCE))
        patch.setattr(json_body, "_READ_TIMEOUT_SECONDS", float(_PATIENCE))
        # Who is refused in mid-body would lose the answer.
        patch.setattr(edge, "_LINGERING_SECONDS", float(_PATIENCE))
        yield


@pytest.fixture
async def sessions(database_url: str) -> AsyncIterator[Sessions]:
    """What opens sessions of a migrated database."""
    engine = open_engine(database_url)
    yield open_sessions(engine)
    await engine.dispose()
