"""Puts an edge together from its engines, whichever they are."""

from prometheus_client import CollectorRegistry

from ingest_edge.admission import Admission
from ingest_edge.app import Edge, Handler, build_edge
from ingest_edge.health import Readiness
from ingest_edge.intake import Intake
from ingest_edge.limits import InFlight, Limits
from ingest_edge.metrics import EdgeMetrics
from pipeline_contracts.settings import Settings
from storage_backends.event_log.interface import EventLog
from storage_backends.key_directory.interface import KeyDirectory
from storage_backends.rate_counter.interface import RateCounter


def assemble_edge(
    settings: Settings,
    *,
    directory: KeyDirectory,
    counter: RateCounter,
    slice_seconds: float,
    log: EventLog,
    receipt_key: bytes,
    readiness: Readiness,
    registry: CollectorRegistry,
    otherwise: Handler | None = None,
) -> Edge:
    """One edge over engines that the caller has opened; its metrics join the registry.

    `slice_seconds` of an account's rate are leased from the counter at once: 0 where asking costs nothing.
    """
    metrics = EdgeMetrics()
    in_flight = InFlight(settings.max_in_flight_bytes)
    admission = Admission(counter, slice_seconds=slice_seconds)
    metrics.add_gauge("pharos_edge_in_flight_bytes", "Bytes of bodies in work", lambda: in_flight.bytes)
    metrics.add_gauge(
        "pharos_edge_rate_fallbacks", "Leases that the counter could not give", lambda: admission.fallbacks
    )
    metrics.add_gauge("pharos_log_bytes", "Bytes of records that wait in the log", log.stored_bytes)
    registry.register(metrics)
    intake = Intake(directory, log, admission, Limits.from_settings(settings), in_flight, metrics)
    return build_edge(
        intake,
        readiness,
        registry,
        receipt_key=receipt_key,
        protobuf=settings.otlp_protobuf,
        otherwise=otherwise,
    )
