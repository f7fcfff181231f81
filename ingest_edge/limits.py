"""The limits of one edge, taken from the settings."""

from dataclasses import dataclass

from pipeline_contracts.settings import Settings


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits in bytes and counts, above which a request is refused."""

    body_bytes: int
    decompressed_bytes: int
    batch_events: int
    event_bytes: int
    in_flight_bytes: int
    account_in_flight_bytes: int
    monitor_in_flight_bytes: int
    collect_in_flight_bytes: int
    address_in_flight_bytes: int
    body_timeout: float
    body_grace: float
    body_rate: int
    protobuf_bytes: int
    expanded_bytes: int

    @classmethod
    def from_settings(cls, settings: Settings) -> "Limits":
        return cls(
            body_bytes=settings.max_body_bytes,
            decompressed_bytes=settings.max_decompressed_bytes,
            batch_events=settings.max_batch_events,
            event_bytes=settings.max_event_bytes,
            in_flight_bytes=settings.max_in_flight_bytes,
            account_in_flight_bytes=settings.max_account_in_flight_bytes,
            monitor_in_flight_bytes=settings.max_monitor_in_flight_bytes,
            collect_in_flight_bytes=settings.max_collect_in_flight_bytes,
            address_in_flight_bytes=settings.max_address_in_flight_bytes,
            body_timeout=settings.body_timeout_seconds,
            body_grace=settings.body_grace_seconds,
            body_rate=settings.min_body_rate,
            protobuf_bytes=settings.max_protobuf_bytes,
            expanded_bytes=settings.max_expanded_bytes,
        )
