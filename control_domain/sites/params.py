"""Reads and checks the parameters of sites and goals. All functions raise `Refused`, which says what to do."""

from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import available_timezones

from control_domain import next_steps
from control_domain.refusals import Refused
from control_domain.sites.reports import ReportQuery, read_report_query
from control_domain.slugs import MAX_NAME_LENGTH, is_name
from pipeline_contracts.errors import InvalidInput
from pipeline_contracts.origins import normalize_origin

MAX_DOMAINS = 50
MAX_EVENT_LENGTH = 255
MAX_PATH_LENGTH = 2048
# Sent by the tracker itself, about time on page and page speed: no actions of a visitor.
AUTOMATIC_EVENTS = ("Engagement", "Web Vital")


def read_name(params: Mapping[str, Any], default: str = "") -> str:
    """Read `name`, or `default` if it is missing."""
    name = str(params.get("name") or "").strip() or default
    if not is_name(name):
        raise Refused(
            f"A name has 1 to {MAX_NAME_LENGTH} printable characters; {next_steps.CHOOSE_SITE_NAME}"
        )
    return name


def make_default_name(origin: str) -> str:
    """Return the host of a registered origin, the default name of a site."""
    return (urlsplit(origin.replace("*.", "", 1)).hostname or "")[:MAX_NAME_LENGTH]


def read_timezone(params: Mapping[str, Any]) -> str:
    """Read `timezone`, by default UTC."""
    timezone = str(params.get("timezone") or "UTC")
    if not is_timezone(timezone):
        raise Refused(f"{timezone!r} is no time zone; write one like Europe/Oslo, or UTC.")
    return timezone


def is_timezone(text: str) -> bool:
    """Return True for the name of a time zone that days of a site can have."""
    return text in _timezones()


@cache
def _timezones() -> frozenset[str]:
    # `localtime` is the zone of this machine; the column store does not have it.
    return frozenset(available_timezones() - {"localtime"})


def read_origins(params: Mapping[str, Any], name: str) -> list[str]:
    """Read the origins of the parameter `name`, one or a list, normalized and without duplicates."""
    value = params.get(name) or []
    texts = [value] if isinstance(value, str) else list(value)
    try:
        return list(dict.fromkeys(normalize_origin(str(text)) for text in texts))
    except ValueError as error:
        raise Refused(f"{error}.") from None


def read_goal_target(params: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Read `event` and `path`, one of which is None."""
    event, path = (str(params.get(name) or "").strip() or None for name in ("event", "path"))
    if (event is None) == (path is None):
        raise Refused(f"A goal is either an event or a path: {next_steps.CHOOSE_GOAL_TARGET}")
    if event is not None:
        _check_event(event)
    if path is not None:
        _check_path(path)
    return event, path


def _check_event(event: str) -> None:
    if len(event) > MAX_EVENT_LENGTH or not event.isprintable():
        raise Refused(f"An event's name has 1 to {MAX_EVENT_LENGTH} printable characters.")
    if event in AUTOMATIC_EVENTS:
        raise Refused(f"{event!r} is what the tracker sends by itself: a goal is something that visitors do.")


def _check_path(path: str) -> None:
    if not path.startswith("/") or len(path) > MAX_PATH_LENGTH or not path.isprintable():
        raise Refused(f"A path begins with / and has at most {MAX_PATH_LENGTH} characters, like /welcome.")


def read_report_params(params: Mapping[str, Any]) -> ReportQuery:
    """Read `days` and `filters`."""
    query = {**(params.get("filters") or {}), "days": params.get("days")}
    texts = [(name, str(value)) for name, value in query.items() if value is not None]
    try:
        return read_report_query(texts)
    except InvalidInput as error:
        raise Refused("; ".join(f"{fault.field} {fault.message}" for fault in error.errors) + ".") from None
