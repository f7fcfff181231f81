"""Turn check-ins of Sentry's cron monitoring into signals of the heartbeat with the name of the monitor's slug."""

import uuid
from dataclasses import dataclass
from typing import Any

import msgspec

from ingest_edge.heartbeat_names import find_heartbeat_by_name
from ingest_edge.intake import Intake, LogEntry
from ingest_edge.sentry.values import as_hex, as_text
from pipeline_contracts import topics
from pipeline_contracts.errors import InvalidInput, StorageUnavailable, Unavailable
from pipeline_contracts.monitors import HeartbeatSignal, MonitorMeta, Ping, Signal, encode_monitor_meta
from storage_backends.key_directory.interface import KeyEntry

_SIGNALS: dict[str, Signal] = {"in_progress": "start", "ok": "success", "error": "failure"}
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class CheckIn:
    """A check-in of a monitor."""

    slug: str
    signal: Signal
    run_id: uuid.UUID | None
    """The ID of the run; None if the SDK has sent none. A start then pairs with the next result, as with ping URLs."""


def read_check_in(fields: dict[str, Any]) -> CheckIn:
    """Return the check-in in an item or in the query of a URL. Raises `InvalidInput`."""
    slug = as_text(fields.get("monitor_slug"))
    if not slug:
        raise InvalidInput("The check-in names no `monitor_slug`.")
    signal = _SIGNALS.get(as_text(fields.get("status")))
    if signal is None:
        raise InvalidInput("The `status` of a check-in is in_progress, ok or error.")
    # An ID of zeros means the newest run, as a missing ID does here.
    run_id = as_hex(fields.get("check_in_id"), 32)
    return CheckIn(slug, signal, uuid.UUID(hex=run_id) if run_id else None)


async def make_signal(intake: Intake, key: KeyEntry, check_in: CheckIn, received_ms: int) -> LogEntry | None:
    """Return the record of the check-in's signal; None if the key's environment has no heartbeat of this name.

    A run has one start and one result, so a repeated check-in changes nothing. Raises `Unavailable`.
    """
    try:
        number = await find_heartbeat_by_name(intake.directory, key.environment_id, check_in.slug)
    except StorageUnavailable as error:
        raise Unavailable("The heartbeat cannot be looked up now.") from error
    if number is None:
        return None
    if check_in.run_id is None:
        meta = MonitorMeta("ping", number, key.environment_id, received_ms)
        value = _encode(Ping(uuid.uuid4(), check_in.signal))
    else:
        meta = MonitorMeta("heartbeat", number, key.environment_id, received_ms)
        value = _encode(HeartbeatSignal(check_in.run_id, check_in.signal))
    return LogEntry(topics.HEARTBEATS, f"heartbeat/{number}".encode(), encode_monitor_meta(meta), value)
