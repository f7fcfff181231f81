"""One OTLP request from its head to a durable answer: traces, logs or metrics."""

import asyncio
import itertools
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from aiohttp import hdrs, web

from ingest_edge.body import check_content_type
from ingest_edge.intake import Intake, now_ms
from ingest_edge.limits import Limits
from ingest_edge.otlp import measure_json
from ingest_edge.otlp.decode import Decoded, Decoder, nested_too_deeply
from ingest_edge.otlp.expansion import check_expansion
from ingest_edge.otlp.judge_logs import judge_logs
from ingest_edge.otlp.judge_metrics import judge_metrics
from ingest_edge.otlp.judge_traces import judge_traces
from ingest_edge.otlp.status import PROTOBUF, WANTS_PROTOBUF, success_answer
from ingest_edge.otlp.verdict import Verdict
from pipeline_contracts import topics
from pipeline_contracts.credentials import CredentialKind
from pipeline_contracts.errors import MethodNotAllowed, NotFound, UnsupportedMediaType
from pipeline_contracts.otlp.logs import LogsRequest
from pipeline_contracts.otlp.metrics import MetricsRequest
from pipeline_contracts.otlp.records import Coding, OtlpMeta, encode_otlp_meta
from pipeline_contracts.otlp.traces import TracesRequest
from storage_backends.key_directory.interface import KeyEntry

OTLP = "/api/v1/otlp/"

# Requests need no order: they go round the partitions, so that one environment can be worked on by all consumers.
_TURNS = 4096
# Bytes of a body whose repair takes no more time than decoding a large one.
_REPAIRED_AT_ONCE = 256 * 1024
_turns = itertools.count(secrets.randbelow(_TURNS))


@dataclass(frozen=True, slots=True)
class _Signal:
    topic: str
    decoder: Decoder
    judge: Callable[[Any, int, Limits], Verdict]
    shared: Callable[[Any], int]
    children: Callable[[Any], int]
    rejected_name: str


_SIGNALS: Mapping[str, _Signal] = {
    "v1/traces": _Signal(
        topics.TRACES,
        Decoder(TracesRequest),
        judge_traces,
        measure_json.shared_by_spans,
        measure_json.children_of_spans,
        "rejectedSpans",
    ),
    "v1/logs": _Signal(
        topics.LOGS,
        Decoder(LogsRequest),
        judge_logs,
        measure_json.shared_by_logs,
        measure_json.children_of_logs,
        "rejectedLogRecords",
    ),
    "v1/metrics": _Signal(
        topics.METRICS,
        Decoder(MetricsRequest),
        judge_metrics,
        measure_json.shared_by_points,
        measure_json.children_of_points,
        "rejectedDataPoints",
    ),
}


@dataclass(slots=True)
class AcceptOtlp:
    """The handler of `POST /v1/otlp/v1/{signal}`."""

    intake: Intake
    protobuf: bool = False
    """Whether bodies in protobuf are taken too."""
    _protobuf: Any = field(init=False, default=None)
    _protobuf_limits: Limits = field(init=False)
    _repairs: asyncio.Semaphore = field(init=False, default_factory=lambda: asyncio.Semaphore(1))

    def __post_init__(self) -> None:
        limits = self.intake.limits
        # A message of two bytes takes a hundred and eighty in memory: its parser builds all before anybody can count.
        self._protobuf_limits = replace(
            limits,
            body_bytes=min(limits.body_bytes, limits.protobuf_bytes),
            decompressed_bytes=min(limits.decompressed_bytes, limits.protobuf_bytes),
        )
        if self.protobuf:
            # Only here: the messages take 10 MB that an edge without them does not need.
            from ingest_edge.otlp import protobuf

            self._protobuf = protobuf

    async def accept(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answers 200 once the log has what was accepted. The body's own bytes go into it, as they came, with the
        places of the records that were rejected. Raises a `Problem`, which `status_answer` turns into a Status."""
        received_ms = now_ms()
        # First of all: the answer, whatever it says, has the request's type.
        in_protobuf = self._is_protobuf(request)
        path = request.path.removeprefix(OTLP)
        signal = _SIGNALS.get(path)
        if signal is None:
            raise NotFound("OTLP is taken at v1/traces, v1/logs and v1/metrics.")
        if request.method != "POST":
            raise MethodNotAllowed("OTLP takes POST only.", headers={hdrs.ALLOW: "POST"})
        intake = self.intake
        key = await intake.authenticate(request, CredentialKind.INGEST_KEY, received_ms)
        if not in_protobuf:
            _check_json(request)
        limits = self._protobuf_limits if in_protobuf else intake.limits
        lease = intake.budgets.telemetry.lease(key.account_id)
        try:
            body = await intake.read(request, limits, lease)
            if in_protobuf:
                verdict = self._protobuf.judge(path, body, limits)
            else:
                decoded = signal.decoder.decode_sent(body)
                if isinstance(decoded, msgspec.DecodeError):
                    decoded = await self._repair(signal.decoder, body, decoded, limits)
                verdict, body = _judge_json(signal, decoded, limits)
            coding: Coding = "protobuf" if in_protobuf else "json"
            headers = await self._store(key, signal.topic, coding, verdict, body, received_ms)
        finally:
            lease.give_back()
        if in_protobuf:
            return self._protobuf.success_answer(path, verdict, headers)  # type: ignore[no-any-return]
        return success_answer(signal.rejected_name, verdict.rejections, verdict.reasons, headers)

    async def _repair(
        self, decoder: Decoder, body: bytes, refused: msgspec.DecodeError, limits: Limits
    ) -> Decoded:
        if len(body) <= _REPAIRED_AT_ONCE:
            return decoder.decode_repaired(body, refused, limits)
        # The largest bodies take seconds: in a thread, other requests are answered meanwhile. One at a time, because
        # a body takes several times its size in memory.
        async with self._repairs:
            return await asyncio.to_thread(decoder.decode_repaired, body, refused, limits)

    async def _store(
        self, key: KeyEntry, topic: str, coding: Coding, verdict: Verdict, body: bytes, received_ms: int
    ) -> Mapping[str, str]:
        if not verdict.accepted:
            return {}
        meta = OtlpMeta(
            key.account_id,
            key.project_id,
            key.environment_id,
            received_ms,
            verdict.accepted,
            coding,
            tuple(verdict.rejected),
        )
        turn = b"%d" % (next(_turns) % _TURNS)
        return await self.intake.store(key, verdict.accepted, topic, turn, encode_otlp_meta(meta), body)

    def _is_protobuf(self, request: web.BaseRequest) -> bool:
        content_type = request.headers.get(hdrs.CONTENT_TYPE, "").partition(";")[0].strip().lower()
        if not self.protobuf or content_type != PROTOBUF:
            return False
        request[WANTS_PROTOBUF] = True
        return True


def _judge_json(signal: _Signal, decoded: Decoded, limits: Limits) -> tuple[Verdict, bytes]:
    """The verdict, and the body as it goes on. What is decoded for it is not kept."""
    request, body = decoded.request, decoded.body
    try:
        verdict = signal.judge(request, len(body), limits)
        check_expansion(
            measure_json.JSON,
            body,
            verdict.accepted,
            lambda: signal.shared(request),
            lambda: signal.children(request),
            limits.expanded_bytes,
        )
    except RecursionError:
        # What the decoder just managed may be too deep for measuring it.
        raise nested_too_deeply() from None
    verdict.leave_out(decoded.left_out)
    return verdict, body


def _check_json(request: web.BaseRequest) -> None:
    try:
        check_content_type(request.headers.get(hdrs.CONTENT_TYPE))
    except UnsupportedMediaType:
        raise UnsupportedMediaType(
            "The body must be application/json. Set the exporter's protocol to http/json, or PHAROS_OTLP_PROTOBUF=1 "
            "at the edge."
        ) from None
