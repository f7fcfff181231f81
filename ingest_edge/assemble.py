"""Build an edge from its engines."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry

from ingest_edge.accelerator import load_accelerator
from ingest_edge.admission import Admission
from ingest_edge.app import Edge, Handler, build_edge
from ingest_edge.body_budget import BodyBudgets
from ingest_edge.collect.accept import AcceptCollect
from ingest_edge.collect.countries import Countries
from ingest_edge.collect.daily_salts import DailySalts
from ingest_edge.collect.dropped import DroppedEvents
from ingest_edge.health import Readiness
from ingest_edge.intake import Intake, now_ms
from ingest_edge.limits import Limits
from ingest_edge.metrics import EdgeMetrics
from ingest_edge.sentry.accept import AcceptSentry
from ingest_edge.sentry.dropped import DroppedItems
from pipeline_contracts.client_address import parse_trusted_proxies
from pipeline_contracts.settings import Settings
from storage_backends.event_log.interface import EventLog
from storage_backends.key_directory.interface import KeyDirectory
from storage_backends.rate_counter.interface import RateCounter
from storage_backends.salts.interface import Salts


@asynccontextmanager
async def open_edge(
    settings: Settings,
    *,
    directory: KeyDirectory,
    counter: RateCounter,
    slice_seconds: float,
    log: EventLog,
    salts: Salts,
    receipt_key: bytes,
    readiness: Readiness,
    registry: CollectorRegistry,
    otherwise: Handler | None = None,
) -> AsyncIterator[Edge]:
    """Open an edge over engines that the caller has opened, and register its metrics.

    `slice_seconds` of an account's rate are leased from the counter at once: 0 for a counter without round trips.
    Raises `BadSettings`. On exit the edge appends its counts of dropped events: exit before the log is closed.
    """
    metrics = EdgeMetrics()
    limits = Limits.from_settings(settings)
    budgets = BodyBudgets.from_limits(limits)
    accelerator = load_accelerator(settings.accelerator)
    admission = Admission(counter, slice_seconds=slice_seconds)
    metrics.add_gauge("pharos_edge_in_flight_bytes", "Bytes of bodies in flight", lambda: budgets.bytes)
    metrics.add_gauge(
        "pharos_edge_rate_fallbacks", "Leases that the counter could not grant", lambda: admission.fallbacks
    )
    metrics.add_gauge(
        "pharos_edge_accelerated",
        "1 if the accelerator validates request bodies, 0 if Python does",
        lambda: accelerator is not None,
    )
    metrics.add_gauge(
        "pharos_edge_accelerator_panics",
        "Bodies that the accelerator gave up because of a defect; Python validated them",
        lambda: 0 if accelerator is None else accelerator.count_panics(),
    )
    metrics.add_gauge("pharos_log_bytes", "Bytes of records that wait in the log", log.stored_bytes)
    registry.register(metrics)
    intake = Intake(directory, log, admission, limits, budgets, metrics)
    collect = _build_collect(settings, intake, salts)
    sentry = AcceptSentry(intake, DroppedItems(log, now_ms), collect.addresses)
    metrics.sentry_dropped = sentry.dropped.total
    try:
        async with (
            collect.dropped.flush_periodically(),
            sentry.dropped.flush_periodically(),
            collect.salts.delete_periodically(now_ms),
        ):
            yield build_edge(
                intake,
                readiness,
                receipt_key=receipt_key,
                collect=collect,
                sentry=sentry,
                protobuf=settings.otlp_protobuf,
                accelerator=accelerator,
                otherwise=otherwise,
            )
    finally:
        collect.countries.close()


def _build_collect(settings: Settings, intake: Intake, salts: Salts) -> AcceptCollect:
    addresses = parse_trusted_proxies(settings.trusted_proxies)
    countries = Countries(settings.country_database)
    intake.metrics.add_gauge(
        "pharos_edge_country_database_age_days",
        "Days since the database of countries was built; 0 without one",
        countries.age_days,
    )
    return AcceptCollect(
        intake,
        DailySalts(salts),
        addresses,
        countries,
        DroppedEvents(intake.log, now_ms),
        settings.country_header,
    )
