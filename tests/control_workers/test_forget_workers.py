"""Workers of queues are forgotten 30 days after their last report."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select

from control_domain.database.engine import Sessions
from control_domain.tables.monitors import QueueWorker
from control_workers.forget_workers import forget_old_workers
from pipeline_contracts.times import to_epoch_ms
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from tests.support.accounts import make_acme
from tests.support.added_objects import ObjectAdder

_NOW = datetime(2030, 5, 31, tzinfo=UTC)
_AGES = {
    "a": timedelta(),
    "b": timedelta(days=30),
    "c": timedelta(days=30, seconds=1),
    "d": timedelta(days=90),
}


@pytest.mark.both_databases
async def test_workers_without_a_report_for_30_days(sessions: Sessions) -> None:
    async with sessions() as session, session.begin():
        await make_acme(session, _NOW)
    objects = ObjectAdder(sessions, InProcessKeyDirectory())
    queues = [(await objects.add_queue(name)).id for name in ("mail", "reports")]
    async with sessions() as session, session.begin():
        session.add_all(
            QueueWorker(
                queue_id=queue, worker_id=name, sequence=1, status="busy", received_ms=to_epoch_ms(_NOW - age)
            )
            for queue in queues
            for name, age in _AGES.items()
        )
    await forget_old_workers(sessions, _NOW)
    async with sessions() as session:
        kept = (await session.execute(select(QueueWorker.queue_id, QueueWorker.worker_id))).all()
    assert sorted(map(tuple, kept)) == [(queue, name) for queue in sorted(queues) for name in ("a", "b")]
