"""Makes log events from the lines that a process has printed."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from deployer.log_lines.control_characters import remove_controls
from deployer.log_lines.lines import hide_and_truncate
from deployer.log_lines.masking import Mask
from deployer.output_logs.line_severity import SEVERITIES, find_severity
from deployer.output_logs.stack_traces import MAX_RECORD_CHARACTERS, StackTraces
from pipeline_contracts.times import format_epoch_ms, from_epoch_ms

_MAX_ATTRIBUTES = 32
_MAX_NAME_CHARACTERS = 100
_MAX_VALUE_CHARACTERS = 1000
_MAX_ID_CHARACTERS = 64
_MAX_STEP = 999
_OLDEST = timedelta(days=1)
_CUT = (
    "Lines may be missing here: the output file became shorter, because the application truncated it or because of a "
    "power cut."
)
_MESSAGES: Final = ("message", "msg", "event", "text")
_LEVELS: Final = ("level", "severity", "levelname", "log.level", "lvl")
_TIMES: Final = ("timestamp", "time", "@timestamp", "ts", "datetime")
# Credentials of Pharos, such as the injected key in a dump of all variables. Any character may precede them, as in
# `Bearer%20phr_ing_…`.
_CREDENTIAL = re.compile(r"(phr_[a-z]{3}_)[0-9A-Za-z_-]{8,}")


@dataclass(frozen=True, slots=True)
class Printed:
    """The process that has printed the lines."""

    service: str
    process: str
    number: int
    deployment_id: int

    def attributes(self) -> dict[str, Any]:
        return {
            "pharos.process": self.process,
            "pharos.instance": f"{self.process}.{self.number}",
            "pharos.deployment": self.deployment_id,
        }


def make_events(
    lines: Sequence[bytes],
    printed: Printed,
    mask: Mask,
    at_ms: int,
    *,
    left_out_lines: int = 0,
    is_estimate: bool = False,
    is_cut: bool = False,
    is_unfinished: bool = False,
    first_step: int = 0,
) -> list[dict[str, Any]]:
    """Return a log event for each line that has text; one event for a stack trace and the line before it.

    `at_ms`: the time of the last write to the output, in milliseconds since 1970. Each line gets a time that is one
    microsecond later than that of the line before, within this millisecond, so that the lines stay in order.
    `first_step`: the microsecond of the first line.
    `mask` hides the values of variables. `is_unfinished`: the rest of the last line is not known, and its end may be
    the beginning of a value. `left_out_lines`: how many earlier lines were left out; the first event reports it.
    `is_estimate`: this number is an estimate. `is_cut`: the end of the file was lost; the first event reports it.
    """
    events = []
    if left_out_lines or is_cut:
        title = describe_missing(left_out_lines, is_estimate=is_estimate, is_cut=is_cut)
        events.append(
            _event(printed, at_ms, "warning", title)
            | {"attributes": printed.attributes() | {"pharos.left_out": True}}
        )
    traces = StackTraces()
    has_named_severity = False
    for number, line in enumerate(lines, 1):
        is_last_unfinished = is_unfinished and number == len(lines)
        text = hide_and_truncate(clean_line(line), mask, unfinished=is_last_unfinished)
        if not text:
            continue
        step = first_step + number - 1
        if event := _read_json(text, printed, at_ms, step):
            events.append(event)
            traces.reset()
            continue
        severity = find_severity(text)
        if traces.continues(text, severity):
            record = events[-1]
            if not has_named_severity:
                record["severity"] = "error"
            if len(record["title"]) + len(text) < MAX_RECORD_CHARACTERS:
                record["title"] += f"\n{text}"
            else:
                events.append(_event(printed, at_ms, record["severity"], text, step))
            continue
        has_named_severity = severity is not None
        if severity is None:
            severity = "error" if traces.is_in_trace else "info"
        events.append(_event(printed, at_ms, severity, text, step))
    return events


def describe_missing(lines: int, *, is_estimate: bool, is_cut: bool) -> str:
    """Return the sentences that report missing lines."""
    sentences = [_CUT] if is_cut else []
    if lines:
        sentences.append(describe_left_out(lines, is_estimate=is_estimate))
    return " ".join(sentences)


def describe_left_out(lines: int, *, is_estimate: bool) -> str:
    """Return the sentence that reports output that was not stored."""
    number = f"about {lines:,}" if is_estimate else f"{lines:,}"
    return (
        f"Pharos left out {number} lines of this output: the process printed more than is stored. `pharos logs "
        "ENVIRONMENT` shows the newest lines."
    )


def clean_line(line: bytes) -> str:
    """Return the text of a line without colours, control characters and credentials of Pharos. If a progress bar has
    overwritten the line, return its last state."""
    text = remove_controls(line.decode("utf-8", "replace")).rstrip("\r\n")
    if "\r" in text:
        text = text[text.rindex("\r") + 1 :]
    return _hide_credentials(text.rstrip())


def _hide_credentials(text: str) -> str:
    return _CREDENTIAL.sub(r"\1•••", text)


def _event(printed: Printed, at_ms: int, severity: str, title: str, step: int = 0) -> dict[str, Any]:
    """Return an event. `step`: microseconds after `at_ms`; at most 999 are added."""
    timestamp = format_epoch_ms(at_ms)
    if step:
        timestamp = f"{timestamp[:-1]}{min(step, _MAX_STEP):03d}Z"
    return {
        "type": "log",
        "severity": severity,
        "title": title,
        "timestamp": timestamp,
        "service": printed.service,
        "attributes": printed.attributes(),
    }


def _read_json(text: str, printed: Printed, at_ms: int, step: int) -> dict[str, Any] | None:
    """Return the event for a line that is a JSON object with a message. None for any other line."""
    if not (text.startswith("{") and text.endswith("}")):
        return None
    try:
        record = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return None
    message = _take(record, _MESSAGES, str)
    if message is None or not message.strip():
        return None
    level = _take(record, _LEVELS, str | int)
    severity = (find_severity(message) or "info") if level is None else _read_severity(level)
    event = _event(printed, at_ms, severity, message, step)
    time = _read_time(_take(record, _TIMES, str), at_ms)
    if time is not None:
        event["timestamp"] = time
    for name in ("trace_id", "span_id"):
        value = record.get(name)
        if isinstance(value, str) and 0 < len(value) <= _MAX_ID_CHARACTERS:
            event[name] = record.pop(name)
    event["attributes"] = {**dict(_scalars(record)), **printed.attributes()}
    if "\\" in text:
        # Credentials may have been escaped.
        event["title"] = _hide_credentials(event["title"])
        event["attributes"] = {
            name: _hide_credentials(value) if isinstance(value, str) else value
            for name, value in event["attributes"].items()
        }
    return event


def _take(record: dict[str, Any], names: Sequence[str], kind: Any) -> Any:
    """Remove and return the first of these members whose value is a `kind`."""
    for name in names:
        if isinstance(record.get(name), kind) and not isinstance(record[name], bool):
            return record.pop(name)
    return None


def _read_severity(level: str | int) -> str:
    if isinstance(level, str):
        return SEVERITIES.get(level.lower(), "info")
    # Numbers of pino, bunyan and Python's logging, which agree from 20 on except for one step.
    for least, severity in ((60, "critical"), (50, "error"), (40, "warning"), (30, "info")):
        if level >= least:
            return severity
    return "debug"


def _read_time(text: str | None, at_ms: int) -> str | None:
    """Return an RFC 3339 time of the last day; None for any other text."""
    if text is None or len(text) > _MAX_ID_CHARACTERS:
        return None
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            return None
        time = time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    latest = from_epoch_ms(at_ms) + timedelta(seconds=1)
    return time.isoformat().replace("+00:00", "Z") if latest - _OLDEST <= time <= latest else None


def _scalars(record: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    kept = 0
    for name, value in record.items():
        if kept == _MAX_ATTRIBUTES:
            return
        if len(name) <= _MAX_NAME_CHARACTERS and isinstance(value, str | int | float | bool):
            kept += 1
            yield name, value[:_MAX_VALUE_CHARACTERS] if isinstance(value, str) else value
