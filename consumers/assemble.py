"""Builds the consumer loop of a topic from the topic's transform and the engines."""

import asyncio
from collections.abc import Callable, Mapping

from consumers.chunk import ChunkLimits, OnStep, Step, Transform
from consumers.insert_lease import StoreClock
from consumers.loop import ConsumerLoop
from consumers.metrics import ConsumerMetrics
from consumers.transforms.heartbeats_topic import HeartbeatsTopic
from consumers.transforms.otlp.topic import logs_topic, metrics_topic, traces_topic
from consumers.transforms.pageviews_topic import PageviewsTopic
from consumers.transforms.queues_topic import QueuesTopic
from consumers.transforms.telemetry_topic import TelemetryTopic
from pipeline_contracts.settings import Settings
from storage_backends.column_store.interface import ColumnStore
from storage_backends.event_log.interface import EventLog, LogConsumer
from storage_backends.monitor_states.interface import MonitorStates

TRANSFORMS: Mapping[str, Callable[[], Transform]] = {
    "telemetry": TelemetryTopic,
    "traces": traces_topic,
    "logs": logs_topic,
    "metrics": metrics_topic,
    "pageviews": PageviewsTopic,
}
"""Transforms that only make rows. The keys are the names for `pharos consumers --only`."""

MONITOR_TRANSFORMS: Mapping[str, Callable[[MonitorStates], Transform]] = {
    "heartbeats": HeartbeatsTopic,
    "queues": QueuesTopic,
}
"""Transforms that also update the current states of monitors. The keys are the names for `pharos consumers
--only`."""


async def ignore_step(step: Step) -> None:
    """Do nothing. This is the `OnStep` callback outside fault tests."""


def assemble_loop(
    settings: Settings,
    transform: Transform,
    *,
    consumer: LogConsumer,
    log: EventLog,
    store: ColumnStore,
    on_step: OnStep = ignore_step,
    clock: StoreClock | None = None,
) -> ConsumerLoop:
    """Build the consumer loop of one topic. The caller opens and closes the engines. Dead letters are appended to
    `log`."""
    return ConsumerLoop(
        consumer=consumer,
        log=log,
        store=store,
        clock=clock or StoreClock(store),
        transform=transform,
        limits=ChunkLimits.from_settings(settings),
        metrics=ConsumerMetrics(transform.topic),
        stop=asyncio.Event(),
        on_step=on_step,
    )
