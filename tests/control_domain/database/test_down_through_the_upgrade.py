"""The migration that stores failures without a run: a heartbeat that is down at the upgrade stays down."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from sqlalchemy import text

from control_domain.database.engine import open_engine
from control_domain.database.migrations.upgrade import upgrade_database
from pipeline_contracts.heartbeat_runs import Run
from pipeline_contracts.heartbeat_states import apply_signal, recount
from pipeline_contracts.monitors import Signal
from storage_backends.monitor_states.interface import Change, Watched
from tests.control_domain.database.test_numbers_once import _AT, _upgrade_to
from tests.support.databases import KINDS, empty_database
from tests.support.monitored import open_states

_ROWS = f"""
INSERT INTO accounts VALUES (1, 'acc_1', 'Acme', 'acme', 'free', 1, 2, {_AT});
INSERT INTO projects VALUES (1, 'prj_1', 1, 'Shop', 'shop', {_AT});
INSERT INTO environments (id, public_id, project_id, name, slug, type, created_at)
 VALUES (1, 'env_1', 1, 'Production', 'production', 'production', {_AT});
INSERT INTO heartbeats VALUES (1, 1, 'missed', 60, NULL, 'UTC', 1, 2, 3, false, {_AT});
INSERT INTO heartbeats VALUES (2, 1, 'well', 60, NULL, 'UTC', 1, 2, 3, false, {_AT});
INSERT INTO heartbeat_states VALUES (1, 'down', 9000, NULL, NULL, 1000, 1000, 1000, 3, 0, NULL, 1);
INSERT INTO heartbeat_states VALUES (2, 'up', 1000, 61000, 61000, 1000, 1000, 1000, 0, 0, NULL, 1);
"""


@pytest.fixture(params=KINDS)
async def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """Yield the URL of an empty, unmigrated database."""
    async with empty_database(request.param, request, tmp_path) as url:
        yield url


def _taking(run_id: str, signal: Signal, at_ms: int) -> Change:
    def change(watched: Mapping[int, Watched]) -> list[Watched]:
        for one in watched.values():
            run = Run(run_id, at_ms)
            apply_signal(one.heartbeat, run, signal, at_ms)
            recount(one.heartbeat, [run])
            one.changed.append(run)
        return list(watched.values())

    return change


@pytest.mark.both_databases
async def test_only_a_success_ends_down_after_the_upgrade(database_url: str) -> None:
    engine = open_engine(database_url)
    async with engine.begin() as connection:
        await connection.run_sync(_upgrade_to, "0008")
        for statement in _ROWS.split(";\n")[:-1]:
            await connection.execute(text(statement))
    await upgrade_database(engine)
    states = await open_states(database_url)
    found = []
    signals: list[tuple[str, Signal]] = [("a", "failure"), ("b", "success")]
    for run_id, signal in signals:
        await states.change({1: [run_id]}, _taking(run_id, signal, 10_000 + len(found)), None)
        async with engine.connect() as connection:
            rows = await connection.execute(text("SELECT state FROM heartbeat_states ORDER BY heartbeat_id"))
            found.append([row[0] for row in rows])
    await states.close()
    await engine.dispose()
    assert found == [["down", "up"], ["up", "up"]]
