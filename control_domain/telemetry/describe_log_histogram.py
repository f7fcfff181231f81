"""Documents of numbers of log records over time, and of the records around a moment."""

from collections.abc import Sequence
from typing import Annotated, TypedDict

from msgspec import Meta

from analytics_queries.telemetry.log_histogram import CountedRecords
from control_domain.telemetry.describe_events import LogDocument
from control_domain.telemetry.describe_services import format_step


class LogCounts(TypedDict):
    """The records of one step by their severity."""

    at: Annotated[str, Meta(description="When the step begins.")]
    unknown: int
    debug: Annotated[int, Meta(description="OpenTelemetry's numbers 1 to 8.")]
    info: int
    warning: int
    error: int
    fatal: int
    records: Annotated[int, Meta(description="The number of all records.")]


class LogHistogramDocument(TypedDict):
    """The number of log records in each step of a time range. Steps without records are left out."""

    step_seconds: int
    records: int
    points: list[LogCounts]


class LogContextDocument(TypedDict):
    """The log records around a moment."""

    before: Annotated[
        list[LogDocument], Meta(description="Records at that moment and before, the newest first.")
    ]
    after: Annotated[list[LogDocument], Meta(description="Records after that moment, the oldest first.")]


def describe_histogram(counted: Sequence[CountedRecords], step_s: int) -> LogHistogramDocument:
    points: dict[int, LogCounts] = {}
    for each in counted:
        point = points.get(each.step)
        if point is None:
            point = points[each.step] = {
                "at": format_step(each.step, step_s),
                "unknown": 0,
                "debug": 0,
                "info": 0,
                "warning": 0,
                "error": 0,
                "fatal": 0,
                "records": 0,
            }
        point["records"] += each.records
        match each.severity_number:
            case number if number >= 21:
                point["fatal"] += each.records
            case number if number >= 17:
                point["error"] += each.records
            case number if number >= 13:
                point["warning"] += each.records
            case number if number >= 9:
                point["info"] += each.records
            case number if number >= 1:
                point["debug"] += each.records
            case _:
                point["unknown"] += each.records
    return {
        "step_seconds": step_s,
        "records": sum(each.records for each in counted),
        "points": list(points.values()),
    }
