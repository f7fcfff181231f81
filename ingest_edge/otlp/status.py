"""Build OTLP's responses: `google.rpc.Status` for a refusal, a partial success if some records were rejected.

A response has the request's content type (opentelemetry-proto, docs/specification.md, OTLP/HTTP response).
"""

import orjson
from aiohttp import hdrs, web

from ingest_edge.fast_path import Answer
from pipeline_contracts.errors import Problem

JSON = "application/json"
PROTOBUF = "application/x-protobuf"

# google.rpc.Code by HTTP status. Others are INVALID_ARGUMENT: the same request would be refused again.
_CODES = {401: 16, 403: 7, 404: 5, 405: 12, 429: 8, 501: 12, 503: 14}
_INVALID_ARGUMENT = 3

# Set by the handler for responses in protobuf.
WANTS_PROTOBUF = web.RequestKey("otlp_protobuf", bool)


def status_response(request: web.BaseRequest, problem: Problem) -> web.Response:
    """Return the refusal as the protocol requires it.

    Senders retry only after 429, 502, 503 and 504, and drop the data otherwise. A slow body (408) and an internal error
    (500) therefore become 503, because a retry may succeed. An invalid body (422) becomes 400.
    """
    status, content_type, headers, body = refuse(problem, in_protobuf=request.get(WANTS_PROTOBUF, False))
    return web.Response(status=status, body=body, headers=headers, content_type=content_type)


def refuse(problem: Problem, *, in_protobuf: bool) -> Answer:
    """Return the refusal as `status_response` does."""
    status, headers = problem.status, problem.headers
    if status in (408, 500):
        status, headers = 503, {**headers, hdrs.RETRY_AFTER: "1"}
    elif status == 422:
        status = 400
    code = _CODES.get(status, _INVALID_ARGUMENT)
    message = problem.detail
    if in_protobuf:
        return Answer(status, PROTOBUF, headers, _status_message(code, message))
    return Answer(status, JSON, headers, orjson.dumps({"code": code, "message": message}))


def success_body(rejected_name: str, rejected: int, reasons: list[str]) -> bytes:
    """Return `{}`, or the number of rejected records with reasons; 64-bit integers are strings."""
    if not rejected:
        return b"{}"
    partial = {rejected_name: str(rejected), "errorMessage": error_message(reasons, rejected)}
    return orjson.dumps({"partialSuccess": partial})


def error_message(reasons: list[str], rejected: int) -> str:
    """Join the first reasons, and the number of further ones."""
    more = rejected - len(reasons)
    return "; ".join(reasons) + (f"; and {more} more" if more > 0 else "")


def _status_message(code: int, message: str) -> bytes:
    # google.rpc.Status {int32 code = 1; string message = 2}, encoded by hand to save a dependency.
    text = message.encode()
    return b"\x08" + _varint(code) + b"\x12" + _varint(len(text)) + text


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)
