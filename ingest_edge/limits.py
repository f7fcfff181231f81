"""The limits of one edge, taken from the settings, and the budget of memory that bodies may hold at once."""

from dataclasses import dataclass

from pipeline_contracts.errors import Unavailable
from pipeline_contracts.settings import Settings


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes, counts and levels over which a request is refused."""

    body_bytes: int
    decompressed_bytes: int
    batch_events: int
    event_bytes: int
    json_depth: int
    in_flight_bytes: int
    body_timeout: float
    protobuf_bytes: int

    @classmethod
    def from_settings(cls, settings: Settings) -> "Limits":
        return cls(
            body_bytes=settings.max_body_bytes,
            decompressed_bytes=settings.max_decompressed_bytes,
            batch_events=settings.max_batch_events,
            event_bytes=settings.max_event_bytes,
            json_depth=settings.max_json_depth,
            in_flight_bytes=settings.max_in_flight_bytes,
            body_timeout=settings.body_timeout_seconds,
            protobuf_bytes=settings.max_protobuf_bytes,
        )


class InFlight:
    """Bytes of bodies in work. Over the limit a request is refused at once: memory stays bounded whatever the
    log does. A request alone is never refused for its size here; the other limits do that."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.bytes = 0

    def reserve(self, size: int, held: int = 0) -> int:
        """Count `size` bytes in; gives them back for the sum that `release` takes.

        `held` is what the same request has reserved before. Raises `Unavailable`.
        """
        if self.bytes > held and self.bytes + size > self._limit:
            raise Unavailable("The edge is at its limit of data in work. Send the same request again.")
        self.bytes += size
        return size

    def release(self, size: int) -> None:
        self.bytes -= size
