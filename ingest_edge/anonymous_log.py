"""What the HTTP server logs of requests that it cannot read, without whose they were.

aiohttp names the peer's address, and the fault may quote a header; neither may be in a log.
"""

import logging

from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web import RequestPayloadError

_NAME = "ingest_edge.server"


class _Anonymous(logging.Filter):
    """Keeps what kind of fault it was; of faults that are not the caller's also where."""

    def filter(self, record: logging.LogRecord) -> bool:
        fault = record.exc_info[1] if record.exc_info else None
        record.msg, record.args = "a request failed: %s", (type(fault).__name__,)
        if isinstance(fault, HttpProcessingError | RequestPayloadError | ConnectionError):
            record.msg = "a request cannot be read: %s"
            record.levelno, record.levelname = logging.INFO, "INFO"
            record.exc_info = record.exc_text = None
        return True


def anonymous_logger() -> logging.Logger:
    """The logger for aiohttp's server."""
    server_logger = logging.getLogger(_NAME)
    if not server_logger.filters:
        server_logger.addFilter(_Anonymous())
    return server_logger
