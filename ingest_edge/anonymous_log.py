"""Log failed and unreadable requests without personal data.

aiohttp's own log lines contain the peer's address, and the error may quote a header; neither may be in a log.
"""

import logging

from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web import RequestPayloadError

_NAME = "ingest_edge.server"


class _Anonymous(logging.Filter):
    """Reduce a record to the type of its error. Only errors of the server keep their traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        record.msg, record.args = "a request failed: %s", (type(error).__name__,)
        if isinstance(error, HttpProcessingError | RequestPayloadError | ConnectionError):
            record.msg = "a request cannot be read: %s"
            record.levelno, record.levelname = logging.INFO, "INFO"
            record.exc_info = record.exc_text = None
        return True


def anonymous_logger() -> logging.Logger:
    """Return the logger for aiohttp's server."""
    server_logger = logging.getLogger(_NAME)
    if not server_logger.filters:
        server_logger.addFilter(_Anonymous())
    return server_logger
