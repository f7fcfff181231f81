"""An answer for a connection over its limit."""

import orjson

from pipeline_contracts.errors import Unavailable
from pipeline_contracts.identifiers import choose_request_id


def raw_answer(problem: Unavailable) -> bytes:
    """A whole HTTP answer, for a connection that is not read from."""
    body = orjson.dumps(problem.to_document())
    head = (
        f"HTTP/1.1 {problem.status} {problem.title}\r\nServer: pharos\r\nConnection: close\r\n"
        f"Content-Type: application/problem+json\r\nContent-Length: {len(body)}\r\n"
        f"Retry-After: {problem.headers['Retry-After']}\r\nX-Request-Id: {choose_request_id(None)}\r\n\r\n"
    )
    return head.encode("ascii") + body
