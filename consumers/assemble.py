"""Puts the loop of a topic together from its engines, whichever they are."""

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
"""What becomes rows, by the names of `pharos consumers --only`."""

MONITORS: Mapping[str, Callable[[MonitorStates], Transform]] = {
    "heartbeats": HeartbeatsTopic,
    "queues": QueuesTopic,
}
"""What changes the present states of monitors too."""


async def no_step(step: Step) -> None:
    """What happens between the steps of the loop outside fault tests."""


def assemble_loop(
    settings: Settings,
    transform: Transform,
    *,
    consumer: LogConsumer,
    log: EventLog,
    store: ColumnStore,
    on_step: OnStep = no_step,
    clock: StoreClock | None = None,
) -> ConsumerLoop:
    """The loop of one topic over engines that the caller has opened; `log` takes its dead letters."""
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
