"""Logs on standard error: one JSON object a line, or text that people read on a terminal."""

import logging
import sys
from datetime import UTC, datetime

import orjson


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:-6] + "Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (identity := getattr(record, "request_id", None)) is not None:
            line["request_id"] = identity
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line).decode()


class _TextLines(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")


def start_logs(level: str, log_format: str = "auto") -> None:
    """Send log lines of `level` and above to standard error.

    `log_format` is json, text, or auto: text if standard error is a terminal, JSON otherwise.
    """
    handler = logging.StreamHandler(sys.stderr)
    is_text = log_format == "text" or (log_format == "auto" and sys.stderr.isatty())
    handler.setFormatter(_TextLines() if is_text else _JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # Alembic logs each migration context, and aiohttp each malformed request.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    logging.getLogger("aiohttp.server").setLevel(logging.ERROR)
    # Without a broker aiokafka logs ten attempts a second; the adapters log the outage once.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    # Without ClickHouse each attempt logs twice; the callers log the outage.
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
    logging.getLogger("clickhouse_connect").setLevel(logging.ERROR)
