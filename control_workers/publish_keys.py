"""Publishes all keys again whenever the key directory has lost them."""

import asyncio
import logging
import time
from collections.abc import Iterable, Set
from datetime import UTC, datetime

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from control_domain.database.engine import Sessions
from control_domain.database.run_periodically import Throttle, run_periodically
from control_domain.published_keys import publish_keys, publish_new_keys
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.metric_names import MetricName
from storage_backends.key_directory.interface import KeyDirectory

logger = logging.getLogger(__name__)


class PublicationAge(Collector):
    """A metric: the seconds since all keys were last published. Before the first publication, the seconds since the
    start."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start to count the seconds from now."""
        self._published_at = time.monotonic()

    def collect(self) -> Iterable[Metric]:
        name: MetricName = "pharos_control_keys_published_age_seconds"
        age = time.monotonic() - self._published_at
        yield GaugeMetricFamily(name, "Seconds since all keys were published", value=age)


async def publish_keys_periodically(
    sessions: Sessions,
    directory: KeyDirectory,
    stop: asyncio.Event,
    *,
    every: float = 1.0,
    repeat_seconds: float = 60.0,
    age: PublicationAge | None = None,
) -> None:
    """Publish all keys now, then whenever the directory has lost them and every `repeat_seconds`, until `stop` is set.

    Every `every` seconds, this checks the directory and publishes keys that a deployer has created. The regular
    publication covers changes that another process could not publish, although this process could reach the directory.
    Outages of either engine are logged once. `age` is reset after each publication of all keys.
    """
    repeat = Throttle(repeat_seconds)
    known: Set[int] | None = None

    async def publish() -> None:
        nonlocal known
        known = await publish_new_keys(sessions, directory, known, datetime.now(UTC))
        if repeat.is_due() or not await directory.is_complete():
            count = await publish_keys(sessions, directory, datetime.now(UTC))
            repeat.done()
            if age is not None:
                age.reset()
            logger.debug("published %d keys", count)

    await run_periodically(
        publish,
        stop,
        every=every,
        logger=logger,
        outage="keys cannot be published now",
        fault="keys could not be published",
        transient=(StorageUnavailable, SQLAlchemyError),
    )
