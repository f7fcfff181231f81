"""A delivery worker that is killed at each step: every message arrives, in order, and twice only with the same ID."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import update

from control_domain.database.engine import open_engine, open_sessions
from control_domain.tables.notifications import NotificationChannel
from tests.notifications.channels.receiver import run_receiver
from tests.support.databases import KINDS, migrated_database
from tests.support.deliveries import open_deliveries
from tests.support.killed_configuration_worker import restarted_program

_PROGRAM = "tests.faults.killable_delivery_worker"
_SECRETS = {"signing_secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLw+s"}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_worker_killed_at_each_step(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    # If other workers are possible, the lease of a killed worker has to end first.
    leases = ("--lease-seconds", "60", "--alone") if kind == "sqlite" else ("--lease-seconds", "2")
    async with (
        migrated_database(kind, request, tmp_path) as url,
        run_receiver() as receiver,
        restarted_program(tmp_path, _PROGRAM, "--database", url, *leases) as worker,
    ):
        engine = open_engine(url)
        deliveries = await open_deliveries(open_sessions(engine))
        deliveries.now = datetime.now(UTC)
        channel = await deliveries.add_channel("hook", secrets=_SECRETS)
        async with deliveries.sessions() as session, session.begin():
            settings = msgspec.json.encode({"url": receiver.url()}).decode()
            await session.execute(update(NotificationChannel).values(settings=settings))
        first, second, third = [await deliveries.write(channel, group=1) for _ in range(3)]
        for kill_at, received in (
            (f"leased {first}", []),
            (f"sent {first}", [first]),
            (f"stored {first}", [first, first]),
            (f"leased {second}", [first, first]),
            (f"sent {second}", [first, first, second]),
            ("", [first, first, second, second, third]),
        ):
            await worker.start(kill_at)
            assert await worker.wait_ended() == bool(kill_at), worker.log_tail()
            assert [request.headers["webhook-id"] for request in receiver.received] == received, kill_at
        assert await deliveries.read_statuses() == dict.fromkeys([first, second, third], "sent")
        # Attempts that a killed worker could not store are not listed.
        assert [len(await deliveries.read_attempts(message)) for message in (first, second, third)] == [
            1,
            1,
            1,
        ]
        # A repeated message has the same ID and content, so that a receiver can recognize it.
        assert len({request.body for request in receiver.received}) == 3
        await engine.dispose()
