"""Which log records are taken."""

import msgspec

from ingest_edge.limits import Limits
from ingest_edge.otlp.verdict import Verdict
from pipeline_contracts.otlp.logs import LogsRequest

_encode = msgspec.json.Encoder().encode


def judge_logs(request: LogsRequest, size: int, limits: Limits) -> Verdict:
    """A log record may be as large as an event. `size`: bytes of the body."""
    verdict = Verdict()
    for _, _, records in request.by_scope():
        if size <= limits.event_bytes:
            # None of them can be over it.
            verdict.accept(len(records))
            continue
        for record in records:
            if len(_encode(record)) > limits.event_bytes:
                verdict.reject(f"a log record is over {limits.event_bytes} bytes")
            else:
                verdict.accept(1)
    return verdict
