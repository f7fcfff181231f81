"""Accept OTLP traces, logs and metrics: from the request to a durable 200."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import msgspec
from aiohttp import hdrs, web
from multidict import CIMultiDictProxy

from ingest_edge.accelerator import Accelerator
from ingest_edge.body import check_content_type
from ingest_edge.fast_path import Answer, Begin, Begun, Complete
from ingest_edge.intake import AcceptedHead, Intake, now_ms
from ingest_edge.limits import Limits
from ingest_edge.otlp import measure_json
from ingest_edge.otlp.accelerated import CountRecords, json_counters, protobuf_counters
from ingest_edge.otlp.decode import Decoded, Decoder, nested_too_deeply
from ingest_edge.otlp.expansion import check_expansion
from ingest_edge.otlp.status import JSON, PROTOBUF, WANTS_PROTOBUF, refuse, success_body
from ingest_edge.otlp.validate_records import Verdict, validate_logs, validate_metrics, validate_traces
from pipeline_contracts import topics
from pipeline_contracts.credentials import CredentialKind
from pipeline_contracts.errors import MethodNotAllowed, NotFound, Problem, UnsupportedMediaType
from pipeline_contracts.otlp.logs import LogsRequest
from pipeline_contracts.otlp.metrics import MetricsRequest
from pipeline_contracts.otlp.records import Coding, OtlpMeta, encode_otlp_meta
from pipeline_contracts.otlp.traces import TracesRequest
from storage_backends.key_directory.interface import KeyEntry

OTLP = "/api/v1/otlp/"

# Size of a body up to which a repair takes no longer than decoding a large body.
_INLINE_REPAIR_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class _Signal:
    topic: str
    decoder: Decoder
    validate: Callable[[Any, int, Limits], Verdict]
    shared_bytes: Callable[[Any], int]
    child_bytes: Callable[[Any], int]
    rejected_name: str


_SIGNALS: Mapping[str, _Signal] = {
    "v1/traces": _Signal(
        topics.TRACES,
        Decoder(TracesRequest),
        validate_traces,
        measure_json.shared_bytes_of_spans,
        measure_json.child_bytes_of_spans,
        "rejectedSpans",
    ),
    "v1/logs": _Signal(
        topics.LOGS,
        Decoder(LogsRequest),
        validate_logs,
        measure_json.shared_bytes_of_logs,
        measure_json.child_bytes_of_logs,
        "rejectedLogRecords",
    ),
    "v1/metrics": _Signal(
        topics.METRICS,
        Decoder(MetricsRequest),
        validate_metrics,
        measure_json.shared_bytes_of_points,
        measure_json.child_bytes_of_points,
        "rejectedDataPoints",
    ),
}


@dataclass(slots=True)
class AcceptOtlp:
    """The handler of `POST /v1/otlp/v1/{signal}`."""

    intake: Intake
    protobuf: bool = False
    """True if every key may send bodies in protobuf; otherwise only the keys of deployed applications may."""
    accelerator: Accelerator | None = None
    _protobuf: Any = field(init=False, default=None)
    _protobuf_limits: Limits = field(init=False)
    _json_counters: Mapping[str, CountRecords] = field(init=False)
    _protobuf_counters: Mapping[str, CountRecords] = field(init=False)
    _repairs: asyncio.Semaphore = field(init=False, default_factory=lambda: asyncio.Semaphore(1))

    def __post_init__(self) -> None:
        limits = self.intake.limits
        # A message of two bytes takes 180 bytes in memory, and the parser builds all messages before they can be
        # counted.
        self._protobuf_limits = replace(
            limits,
            body_bytes=min(limits.body_bytes, limits.protobuf_bytes),
            decompressed_bytes=min(limits.decompressed_bytes, limits.protobuf_bytes),
        )
        self._json_counters = json_counters(self.accelerator, limits)
        self._protobuf_counters = protobuf_counters(self.accelerator, limits)
        if self.protobuf:
            self._protobuf = _import_protobuf()

    async def accept(self, request: web.BaseRequest) -> web.StreamResponse:
        """Append the body to the log with the indexes of its rejected records, and respond 200.

        Raises a `Problem`, which `status_response` converts to a `google.rpc.Status`.
        """
        received_ms = now_ms()
        # Check this first, because all responses have the request's content type.
        is_sent_in_protobuf = _is_protobuf(request)
        request[WANTS_PROTOBUF] = in_protobuf = is_sent_in_protobuf and self.protobuf
        path = request.path.removeprefix(OTLP)
        signal = _SIGNALS.get(path)
        if signal is None:
            raise NotFound("OTLP is accepted at v1/traces, v1/logs and v1/metrics.")
        if request.method != "POST":
            raise MethodNotAllowed("OTLP takes POST only.", headers={hdrs.ALLOW: "POST"})
        intake = self.intake
        key = await intake.authenticate(request, CredentialKind.INGEST_KEY, received_ms)
        if is_sent_in_protobuf and key.is_application_key:
            request[WANTS_PROTOBUF] = in_protobuf = True
            if self._protobuf is None:
                self._protobuf = await asyncio.to_thread(_import_protobuf)
        if not in_protobuf:
            _check_json(request)
        limits = self._protobuf_limits if in_protobuf else intake.limits
        lease = intake.budgets.telemetry.lease(key.account_id)
        try:
            body = await intake.read(request, limits, lease)
            verdict = self._judge(path, body, in_protobuf=in_protobuf)
            if isinstance(verdict, msgspec.DecodeError):
                decoded = await self._repair(signal.decoder, body, verdict, limits)
                verdict, body = _validate_json(signal, decoded, limits)
            headers: Mapping[str, str] = {}
            if verdict.accepted:
                meta = _meta(key, received_ms, verdict, in_protobuf=in_protobuf)
                # Requests need no order: all consumers can share an environment.
                headers = await intake.store(key, verdict.accepted, signal.topic, b"", meta, body)
        finally:
            lease.release()
        answer = self._success(path, verdict, headers, in_protobuf=in_protobuf)
        return web.Response(body=answer.body, headers=headers, content_type=answer.content_type)

    def begins(self) -> Mapping[str, Begin]:
        """Return by path the functions that begin a request on the fast path (see `fast_path`)."""
        return {path: partial(self._begin, path) for path in _SIGNALS}

    def _begin(self, path: str, headers: "CIMultiDictProxy[str]") -> Complete | None:
        received_ms = now_ms()
        content_type = headers.get(hdrs.CONTENT_TYPE)
        in_protobuf = content_type == PROTOBUF
        if (in_protobuf and self._protobuf is None) or (not in_protobuf and content_type != JSON):
            return None
        head = self.intake.accept_head_now(headers, received_ms)
        if head is not None and in_protobuf and not self.protobuf and not head.key.is_application_key:
            return None
        return None if head is None else partial(self._complete, path, in_protobuf, head)

    def _complete(self, path: str, in_protobuf: bool, head: AcceptedHead, sent: bytes) -> Begun | None:
        key, coding, received_ms = head
        limits = self._protobuf_limits if in_protobuf else self.intake.limits
        try:
            body = self.intake.unpack_now(sent, coding, limits)
            if body is None:
                return None
            verdict = self._judge(path, body, in_protobuf=in_protobuf)
            if isinstance(verdict, msgspec.DecodeError) or not verdict.accepted:
                # A repair, or nothing to store.
                self.intake.prefer_usual_path(key.account_id)
                return None
            meta = _meta(key, received_ms, verdict, in_protobuf=in_protobuf)
            answer = self._success(path, verdict, {}, in_protobuf=in_protobuf)
            topic = _SIGNALS[path].topic
            storing = self.intake.store_now(key, verdict.accepted, topic, b"", meta, body)
        except Problem:
            self.intake.prefer_usual_path(key.account_id)
            return None
        if storing is None:
            return None
        answer = answer._replace(headers=storing.headers)
        return Begun(storing.durable, storing.finish, answer, partial(refuse, in_protobuf=in_protobuf))

    def _judge(self, path: str, body: bytes, *, in_protobuf: bool) -> "Verdict | msgspec.DecodeError":
        """Return the verdict on a body, or the error if a repair of the body may be possible. Raises `Problem`."""
        counters = self._protobuf_counters if in_protobuf else self._json_counters
        count = counters.get(path)
        if count is not None and (records := count(body)) is not None:
            return Verdict(accepted=records)
        if in_protobuf:
            return self._protobuf.validate(path, body, self._protobuf_limits)  # type: ignore[no-any-return]
        signal = _SIGNALS[path]
        decoded = signal.decoder.decode_sent(body)
        if isinstance(decoded, msgspec.DecodeError):
            return decoded
        verdict, _ = _validate_json(signal, decoded, self.intake.limits)
        return verdict

    def _success(
        self, path: str, verdict: Verdict, headers: Mapping[str, str], *, in_protobuf: bool
    ) -> Answer:
        if in_protobuf:
            return Answer(200, PROTOBUF, headers, self._protobuf.success_body(path, verdict))
        name = _SIGNALS[path].rejected_name
        return Answer(200, JSON, headers, success_body(name, verdict.rejections, verdict.reasons))

    async def _repair(
        self, decoder: Decoder, body: bytes, refused: msgspec.DecodeError, limits: Limits
    ) -> Decoded:
        if len(body) <= _INLINE_REPAIR_BYTES:
            return decoder.decode_repaired(body, refused, limits)
        # The largest bodies take seconds: a thread keeps the event loop free. One at a time, because a repair takes
        # several times the size of the body in memory.
        async with self._repairs:
            return await asyncio.to_thread(decoder.decode_repaired, body, refused, limits)


def _is_protobuf(request: web.BaseRequest) -> bool:
    return request.headers.get(hdrs.CONTENT_TYPE, "").partition(";")[0].strip().lower() == PROTOBUF


def _import_protobuf() -> Any:
    """Return the module of protobuf bodies. It is imported only where it is needed: its messages take 10 MB."""
    from ingest_edge.otlp import protobuf

    return protobuf


def _meta(key: KeyEntry, received_ms: int, verdict: Verdict, *, in_protobuf: bool) -> bytes:
    coding: Coding = "protobuf" if in_protobuf else "json"
    rejected = tuple(verdict.rejected)
    meta = OtlpMeta(
        key.account_id, key.project_id, key.environment_id, received_ms, verdict.accepted, coding, rejected
    )
    return encode_otlp_meta(meta)


def _validate_json(signal: _Signal, decoded: Decoded, limits: Limits) -> tuple[Verdict, bytes]:
    """Return the verdict and the body to store."""
    request, body = decoded.request, decoded.body
    try:
        verdict = signal.validate(request, len(body), limits)
        check_expansion(
            measure_json.JSON,
            body,
            verdict.accepted,
            lambda: signal.shared_bytes(request),
            lambda: signal.child_bytes(request),
            limits.expanded_bytes,
        )
    except RecursionError:
        # A body at the nesting limit of the decoder may be too deep for measuring it.
        raise nested_too_deeply() from None
    verdict.count_dropped(decoded.drop_reasons)
    return verdict, body


def _check_json(request: web.BaseRequest) -> None:
    try:
        check_content_type(request.headers.get(hdrs.CONTENT_TYPE))
    except UnsupportedMediaType:
        raise UnsupportedMediaType(
            "The body must be application/json. Set the exporter's protocol to http/json, or PHAROS_OTLP_PROTOBUF=1 "
            "at the edge."
        ) from None
