"""Accept signals of heartbeats, snapshots of queues and updates of workers: from the request to a durable 202.

They take no tokens of the account's ingest rate: the signal of a job must be accepted even if other telemetry exceeds
the rate.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from aiohttp import hdrs, web

from ingest_edge.body import check_content_type
from ingest_edge.decoders.monitors import decode_heartbeat, decode_snapshot, decode_worker
from ingest_edge.intake import Intake, now_ms
from ingest_edge.limits import Limits
from ingest_edge.responses import json_response
from pipeline_contracts import topics
from pipeline_contracts.credentials import CredentialKind
from pipeline_contracts.errors import InvalidInput, NotFound
from pipeline_contracts.leap_seconds import replace_leap_second
from pipeline_contracts.monitors import MonitorMeta, encode_monitor_meta
from pipeline_contracts.surrogates import replace_lone_surrogates
from storage_backends.key_directory.interface import KeyEntry

HEARTBEATS = "/api/v1/heartbeats/"
QUEUES = "/api/v1/queues/"

Kind = Literal["heartbeat", "snapshot", "worker"]

# A signal has about a hundred bytes.
_BODY_BYTES = 16 * 1024
# A signal's time is the receipt of its head, and scans wait no longer than 4 s for signals in flight.
BODY_SECONDS = 3.0
_MAX_ID_LENGTH = 18
_ACCEPTED = b'{"data":{"status":"accepted"}}'


@dataclass(slots=True)
class AcceptMonitors:
    """The handlers of signals, snapshots and worker updates."""

    intake: Intake
    _limits: Limits = field(init=False)

    def __post_init__(self) -> None:
        limits = self.intake.limits
        self._limits = replace(
            limits,
            body_bytes=_BODY_BYTES,
            decompressed_bytes=_BODY_BYTES,
            body_timeout=min(limits.body_timeout, BODY_SECONDS),
        )

    async def heartbeat(self, request: web.BaseRequest) -> web.StreamResponse:
        """`POST /v1/heartbeats/{heartbeat}`."""
        number = request.path.removeprefix(HEARTBEATS)
        return await self._accept(
            request, "heartbeat", f"heartbeat/{number}", topics.HEARTBEATS, decode_heartbeat
        )

    async def queue(self, request: web.BaseRequest) -> web.StreamResponse:
        """`POST /v1/queues/{queue}/snapshots` and `…/workers`."""
        number, _, kind = request.path.removeprefix(QUEUES).partition("/")
        if kind == "snapshots":
            return await self._accept(request, "snapshot", f"queue/{number}", topics.QUEUES, decode_snapshot)
        if kind == "workers":
            return await self._accept(request, "worker", f"queue/{number}", topics.QUEUES, decode_worker)
        raise NotFound("A queue takes POST …/snapshots and POST …/workers.")

    async def _accept(
        self,
        request: web.BaseRequest,
        kind: Kind,
        monitor: str,
        topic: str,
        decode: Callable[[bytes], Any],
    ) -> web.StreamResponse:
        received_ms = now_ms()
        intake = self.intake
        key = await intake.authenticate(request, CredentialKind.MONITOR_KEY, received_ms)
        number = _check_monitor(key, monitor)
        check_content_type(request.headers.get(hdrs.CONTENT_TYPE))
        lease = intake.budgets.monitors.lease(key.account_id)
        try:
            body = _make_decodable(await intake.read(request, self._limits, lease), decode)
            meta = encode_monitor_meta(MonitorMeta(kind, number, key.environment_id, received_ms))
            await intake.append(topic, monitor.encode(), meta, body)
        finally:
            lease.release()
        intake.metrics.signals_accepted += 1
        return json_response(202, _ACCEPTED, {})


def _make_decodable(body: bytes, decode: Callable[[bytes], Any]) -> bytes:
    """Return the body so that the consumer can decode it: without lone surrogates and leap seconds.

    Raises `InvalidInput`.
    """
    try:
        decode(body)
        return body
    except InvalidInput:
        repaired = replace_lone_surrogates(body)
        repaired = replace_leap_second(repaired, "observed_at") or repaired
        if repaired is body:
            raise
    decode(repaired)
    return repaired


def _check_monitor(key: KeyEntry, monitor: str) -> int:
    """Return the ID of the monitor. Raises `NotFound` unless the key is for this monitor."""
    number = monitor.partition("/")[2]
    if key.monitor != monitor or not number.isascii() or not number.isdigit() or len(number) > _MAX_ID_LENGTH:
        raise NotFound("This key gives access to no monitor with this ID.")
    return int(number)
