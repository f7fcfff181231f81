"""What a caller asks of a report: the days and the filters."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from analytics_queries.visits.report_request import VisitFilters
from pipeline_contracts.errors import FieldError, InvalidInput

_DEFAULT_DAYS = 30
_DAYS = (1, 7, _DEFAULT_DAYS, 90, 365)
_DEVICES = ("Desktop", "Mobile", "Tablet")
_COUNTRY = re.compile("[A-Za-z]{2}")
_LONGEST = {"path": 2048, "source": 255, "campaign": 255}
_NAMES = ("days", *_LONGEST, "device", "country")


@dataclass(frozen=True, slots=True)
class ReportQuery:
    """Days up to now, and which visits are kept."""

    days: int
    filters: VisitFilters


def read_report_query(given: Iterable[tuple[str, str]]) -> ReportQuery:
    """The query in these names and values. An empty value is the same as absent; other names are ignored.

    Raises `InvalidInput` that lists every field at fault.
    """
    values: dict[str, list[str]] = {}
    for name, value in given:
        if name in _NAMES and value:
            values.setdefault(name, []).append(value)
    faults = []
    for name, found in values.items():
        message = "must be given once" if len(found) > 1 else _fault(name, found[0])
        if message is not None:
            faults.append(FieldError(name, message))
    if faults:
        raise InvalidInput("Mend the fields below and ask again.", errors=faults)
    chosen = {name: found[0] for name, found in values.items()}
    days = int(chosen.pop("days", _DEFAULT_DAYS))
    if "country" in chosen:
        chosen["country"] = chosen["country"].upper()
    return ReportQuery(days, VisitFilters(**chosen))


def _fault(name: str, value: str) -> str | None:
    """What is wrong with the value."""
    match name:
        case "days":
            allowed = [str(days) for days in _DAYS]
            return None if value in allowed else f"must be one of {', '.join(allowed)}"
        case "device":
            return None if value in _DEVICES else f"must be one of {', '.join(_DEVICES)}"
        case "country":
            return None if _COUNTRY.fullmatch(value) else "must be two letters (ISO 3166-1 alpha-2)"
    longest = _LONGEST[name]
    return None if len(value) <= longest else f"must have at most {longest} characters"
