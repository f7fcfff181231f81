"""The figures of pages of notifications."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.support.figures.expected import Shown
from tests.support.figures.texts import (
    write_between,
    write_count,
    write_duration,
    write_local,
    write_place,
    write_seconds,
)

_STATES = {"sent": "Sent", "pending": "Pending", "failed": "Failed", "canceled": "Canceled"}


def _read_incidents(incidents: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in incidents:
        lasted = write_between(each["started_at"], each["resolved_at"]) if each["state"] != "info" else []
        yield [each["title"], each["severity"].capitalize(), *write_place(each), each["started_at"], *lasted]


def _read_open_incidents(incidents: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    yield from _read_incidents(incidents)
    yield [f"Open ({len(incidents)})"]


def _read_incident(incident: Mapping[str, Any]) -> Iterable[list[str]]:
    yield [incident["title"]]
    yield ["Began", incident["started_at"]]
    if incident["state"] == "resolved":
        yield ["Lasted", *write_between(incident["started_at"], incident["resolved_at"])]
    for figure in incident["figures"]:
        name = figure["name"][0].upper() + figure["name"][1:]
        limit = figure["threshold"]
        limits = [] if limit is None else [f"threshold {_write_figure(limit, figure['unit'])}"]
        yield [name, _write_figure(figure["value"], figure["unit"]), *limits]
    for line in incident["details"]:
        yield [line]
    yield from _read_deliveries(incident["notifications"])


def _write_figure(value: float, unit: str) -> str:
    if unit in ("ms", "s"):
        return write_duration(value if unit == "ms" else value * 1000)
    return f"{write_local(value, 2)} {unit}".strip()


def _read_deliveries(deliveries: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in deliveries:
        error = [each["last_error"]] if each["last_error"] else []
        yield [
            each["title"],
            each["recipient"],
            _STATES[each["status"]],
            str(each["attempts"]),
            each["created_at"],
            *error,
        ]


def _read_thresholds(thresholds: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in thresholds:
        limit, value = (
            "–" if number is None else _write_value(each["kind"], number)
            for number in (each["threshold"], each["value"])
        )
        yield [each["name"], f"{each['direction']} {limit}", value, each["target"], each["severity"]]


def _write_value(kind: str, value: float) -> str:
    match kind:
        case "queue.wait":
            return write_seconds(value)
        case "service.latency":
            return write_duration(value)
        case "queue.size":
            return f"{write_local(value, 2)} jobs"
        case "service.error_rate":
            return f"{write_local(value, 2)} %"
    return write_count(round(value, 2))


def _read_rules(rules: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in rules:
        recipients = [
            to["channel"]["name"] if to["channel"] else to["person"]["email"] for to in each["recipients"]
        ]
        yield [each["name"], *recipients, "On" if each["enabled"] else "Off"]


def _read_channels(channels: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in channels:
        yield [each["name"], *([each["last_error"]] if each["last_error"] else [])]


def _read_silences(silences: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in silences:
        yield [each["starts_at"], each["ends_at"], each["reason"] or "–"]


NOTIFICATIONS: dict[str, Shown] = {
    "/notifications/incidents": {"incidents": _read_incidents},
    "/notifications/incidents?state=firing": {"incidents": _read_open_incidents},
    "/notifications/incidents/:incident": {r"incidents/\w+": _read_incident},
    "/notifications/rules": {"notification-rules": _read_rules},
    "/notifications/thresholds": {"thresholds": _read_thresholds},
    "/notifications/channels": {"notification-channels": _read_channels},
    "/notifications/deliveries": {"notifications": _read_deliveries},
    "/notifications/silences": {"silences": _read_silences},
}
