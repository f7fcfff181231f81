"""What an operator wants of a site, read and checked. All raise `Refused`, which says what to do."""

from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import available_timezones

from control_domain.refusals import Refused
from control_domain.sites.report_query import ReportQuery, read_report_query
from control_domain.slugs import LONGEST_NAME, is_name
from pipeline_contracts.errors import InvalidInput
from pipeline_contracts.origins import register_origin

MOST_DOMAINS = 50
_LONGEST_EVENT = 255
_LONGEST_PATH = 2048
# They tell how long a page was looked at and how fast it was: nothing that a visitor does.
_NO_GOALS = ("Engagement", "Web Vital")


def read_name(wanted: Mapping[str, Any], otherwise: str = "") -> str:
    """`name`, or the other one where it is left out."""
    name = str(wanted.get("name") or "").strip() or otherwise
    if not is_name(name):
        raise Refused(f"A name has 1 to {LONGEST_NAME} printable characters; choose one with --name.")
    return name


def host_of(origin: str) -> str:
    """The host of a registered origin, which a site may be called after."""
    return (urlsplit(origin.replace("*.", "", 1)).hostname or "")[:LONGEST_NAME]


def read_timezone(wanted: Mapping[str, Any]) -> str:
    """`timezone`, UTC where it is left out."""
    timezone = str(wanted.get("timezone") or "UTC")
    if timezone not in _timezones():
        raise Refused(f"{timezone!r} is no time zone; write one like Europe/Oslo, or UTC.")
    return timezone


@cache
def _timezones() -> frozenset[str]:
    # `localtime` is the zone of the machine that asks; the column store knows none of that name.
    return frozenset(available_timezones() - {"localtime"})


def read_origins(wanted: Mapping[str, Any], name: str) -> list[str]:
    """The origins under this name, one or a list, each once, in the form in which they are kept."""
    given = wanted.get(name) or []
    texts = [given] if isinstance(given, str) else list(given)
    try:
        return list(dict.fromkeys(register_origin(str(text)) for text in texts))
    except ValueError as error:
        raise Refused(f"{error}.") from None


def read_goal_target(wanted: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """`event` and `path`, one of which is None."""
    event, path = (str(wanted.get(name) or "").strip() or None for name in ("event", "path"))
    if (event is None) == (path is None):
        raise Refused("A goal is either an event or a path: give one of --event and --path.")
    if event is not None:
        _check_event(event)
    if path is not None:
        _check_path(path)
    return event, path


def _check_event(event: str) -> None:
    if len(event) > _LONGEST_EVENT or not event.isprintable():
        raise Refused(f"An event's name has 1 to {_LONGEST_EVENT} printable characters.")
    if event in _NO_GOALS:
        raise Refused(f"{event!r} is what the tracker sends by itself: a goal is something that visitors do.")


def _check_path(path: str) -> None:
    if not path.startswith("/") or len(path) > _LONGEST_PATH or not path.isprintable():
        raise Refused(f"A path begins with / and has at most {_LONGEST_PATH} characters, like /welcome.")


def read_wanted_report(wanted: Mapping[str, Any]) -> ReportQuery:
    """`days` and `filters`."""
    given = {**(wanted.get("filters") or {}), "days": wanted.get("days")}
    texts = [(name, str(value)) for name, value in given.items() if value is not None]
    try:
        return read_report_query(texts)
    except InvalidInput as error:
        raise Refused("; ".join(f"{fault.field} {fault.message}" for fault in error.errors) + ".") from None
