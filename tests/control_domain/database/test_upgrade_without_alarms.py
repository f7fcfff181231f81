"""The migration that adds alerts: neither the migration nor the duration of the upgrade raises an alert."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import text

from control_domain.database.engine import open_engine
from control_domain.database.migrations.upgrade import upgrade_database
from control_domain.tables.notifications import NotificationGroup, NotificationSilence
from pipeline_contracts.blind_times import SCAN_CLOCK
from tests.contract.test_monitor_states_contract import passing
from tests.control_domain.database.test_numbers_once import _AT, _upgrade_to
from tests.support.databases import KINDS, empty_database
from tests.support.monitored import MINUTE, T0, open_states

_ROWS = f"""
INSERT INTO accounts VALUES (1, 'acc_1', 'Acme', 'acme', 'free', 1, 2, {_AT});
INSERT INTO projects VALUES (1, 'prj_1', 1, 'Shop', 'shop', {_AT});
INSERT INTO environments (id, public_id, project_id, name, slug, type, created_at)
 VALUES (1, 'env_1', 1, 'Production', 'production', 'production', {_AT});
INSERT INTO heartbeats VALUES (1, 1, 'down', 60, NULL, 'UTC', 60, 3600, 1, false, {_AT});
INSERT INTO heartbeats VALUES (2, 1, 'well', 60, NULL, 'UTC', 60, 3600, 1, false, {_AT});
INSERT INTO heartbeat_states VALUES (1, 'down', {T0}, NULL, NULL, {T0}, {T0}, {T0}, 1, 0, NULL, 1);
INSERT INTO heartbeat_states VALUES (2, 'up', {T0}, {T0 + MINUTE}, {T0 + MINUTE}, {T0}, {T0}, {T0}, 0, 0, NULL, 1);
"""
_PROGRESS = f"""
INSERT INTO monitor_progress VALUES ('pharos.heartbeats', 0, {T0 - MINUTE});
INSERT INTO monitor_progress VALUES ('pharos.heartbeats', 1, {T0});
INSERT INTO monitor_progress VALUES ('pharos.queues', 0, {T0 + MINUTE});
"""


@pytest.fixture(params=KINDS)
async def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """Yield the URL of an empty, unmigrated database."""
    async with empty_database(request.param, request, tmp_path) as url:
        yield url


@pytest.mark.both_databases
async def test_heartbeats_that_were_due_during_the_upgrade_are_not_down(database_url: str) -> None:
    engine = open_engine(database_url)
    async with engine.begin() as connection:
        await connection.run_sync(_upgrade_to, "0008")
        for statement in (_ROWS + _PROGRESS).split(";\n")[:-1]:
            await connection.execute(text(statement))
    await upgrade_database(engine)
    states = await open_states(database_url)
    started = T0 + 10 * MINUTE
    gap = await states.keep_clock(SCAN_CLOCK, started)
    assert gap is not None and gap.to_ms == started
    await states.change_due(started, 9, passing(started))
    async with engine.connect() as connection:
        found = await connection.execute(text("SELECT state FROM heartbeat_states ORDER BY heartbeat_id"))
        assert found.scalars().all() == ["down", "unknown"]
        events = await connection.execute(text("SELECT kind FROM alert_events"))
        assert events.scalars().all() == ["platform.blind"]
    await states.close()
    await engine.dispose()


@pytest.mark.both_databases
async def test_a_scan_that_never_applied_a_signal_has_no_clock(database_url: str) -> None:
    engine = open_engine(database_url)
    await upgrade_database(engine)
    async with engine.connect() as connection:
        assert (await connection.execute(text("SELECT * FROM monitor_progress"))).all() == []
    await engine.dispose()


async def test_numbers_of_silences_and_groups_are_not_reused(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite+aiosqlite:///{tmp_path / 'control.sqlite'}")
    await upgrade_database(engine)
    statement = text("SELECT sql FROM sqlite_master WHERE name = :name")
    async with engine.connect() as connection:
        for table in (NotificationSilence, NotificationGroup):
            name = table.__tablename__
            assert "AUTOINCREMENT" in str((await connection.execute(statement, {"name": name})).scalar_one())
            assert table.__table__.dialect_options["sqlite"]["autoincrement"] is True
    await engine.dispose()
