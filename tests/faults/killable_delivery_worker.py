"""A delivery worker that kills itself with SIGKILL at a checkpoint of a message, such as `sent msg_0002`.

A life ends when no notification is pending; see `tests.support.forked_lives`.
"""

import argparse
import asyncio
import os
import signal

from sqlalchemy import select

from control_domain.database.engine import Sessions, open_engine, open_sessions
from control_domain.tables.notifications import Notification
from notifications.channels.outbound_http.client import open_outbound_http
from notifications.channels.webhook import WebhookChannel
from notifications.delivery.attempt import Leased
from notifications.delivery.worker import Checkpoint, DeliveryWorker, running_deliveries
from tests.support.forked_lives import run_lives
from tests.support.serve_control import VARIABLE_KEYS


async def _is_pending(sessions: Sessions) -> bool:
    async with sessions() as session:
        pending = select(Notification.id).where(Notification.status == "pending").limit(1)
        return await session.scalar(pending) is not None


async def _live(arguments: argparse.Namespace, order: str) -> None:
    async def die_at(checkpoint: Checkpoint, leased: Leased) -> None:
        if order == f"{checkpoint} {leased.message.id}":
            os.kill(os.getpid(), signal.SIGKILL)

    engine = open_engine(arguments.database)
    sessions = open_sessions(engine)
    async with open_outbound_http(allow_private=True) as http:
        worker = DeliveryWorker(
            sessions,
            {"webhook": WebhookChannel(http)},
            VARIABLE_KEYS,
            lease_seconds=arguments.lease_seconds,
            on_checkpoint=die_at,
        )
        async with running_deliveries(worker, is_alone=arguments.alone):
            while await _is_pending(sessions):
                await asyncio.sleep(0.05)
                worker.wake()
    await engine.dispose()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--database", required=True)
    parser.add_argument("--lease-seconds", type=float, required=True)
    parser.add_argument("--alone", action="store_true", help="there is no other worker")
    arguments = parser.parse_args()
    run_lives(lambda order: _live(arguments, order))


if __name__ == "__main__":
    main()
