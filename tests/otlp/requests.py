"""Small valid OTLP requests, for tests to modify."""

from typing import Any

TRACE_ID = "5b8efff798038103d269b633813fc60c"
SPAN_ID = "eee19b7ec3c1b174"
START = "1544712660000000000"
END = "1544712661000000000"


def span(**members: Any) -> dict[str, Any]:
    """Return a valid span with changed members; None removes one."""
    whole = {
        "traceId": TRACE_ID,
        "spanId": SPAN_ID,
        "name": "work",
        "startTimeUnixNano": START,
        "endTimeUnixNano": END,
    }
    return {name: value for name, value in {**whole, **members}.items() if value is not None}


def traces(*spans: Any) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


def logs(*records: Any) -> dict[str, Any]:
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": list(records)}]}]}


def metrics(*metrics: Any) -> dict[str, Any]:
    return {"resourceMetrics": [{"scopeMetrics": [{"metrics": list(metrics)}]}]}


def attribute(key: str, **value: Any) -> dict[str, Any]:
    return {"key": key, "value": value}


def nested(levels: int) -> dict[str, Any]:
    """Return a value of this many nested lists."""
    value: dict[str, Any] = {"stringValue": "x"}
    for _ in range(levels):
        value = {"arrayValue": {"values": [value]}}
    return value


def snake(value: Any) -> Any:
    """Return the value with members in snake_case, at all levels."""
    if isinstance(value, dict):
        return {
            "".join("_" + c.lower() if c.isupper() else c for c in name): snake(member)
            for name, member in value.items()
        }
    return [snake(member) for member in value] if isinstance(value, list) else value
