"""Queries of reports: valid and invalid parameters."""

from urllib.parse import parse_qsl

import pytest

from analytics_queries.visits.report_request import VisitFilters
from control_domain.sites.reports import ReportQuery, read_report_query
from pipeline_contracts.errors import FieldError, InvalidInput


def _read(query: str) -> ReportQuery:
    return read_report_query(parse_qsl(query, keep_blank_values=True))


@pytest.mark.parametrize(
    ("query", "days", "filters"),
    [
        ("", 30, {}),
        ("days=1", 1, {}),
        ("days=365&unknown=1&unknown=2", 365, {}),
        ("days=&path=&source=&campaign=&device=&country=", 30, {}),
        ("days=&days=7", 7, {}),
        ("path=/a%20b%3Fc&campaign=x", 30, {"path": "/a b?c", "campaign": "x"}),
        ("source=Direct+/+None", 30, {"source": "Direct / None"}),
        ("device=Tablet&country=no", 30, {"device": "Tablet", "country": "NO"}),
        (f"path={'x' * 2048}&source={'é' * 255}", 30, {"path": "x" * 2048, "source": "é" * 255}),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else None,
)
def test_valid_queries_are_parsed(query: str, days: int, filters: dict[str, str]) -> None:
    assert _read(query) == ReportQuery(days, VisitFilters(**filters))


_DAYS = "must be one of 1, 7, 30, 90, 365"
_COUNTRY = "must be two letters (ISO 3166-1 alpha-2)"


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("days=2", ("days", _DAYS)),
        ("days=030", ("days", _DAYS)),
        ("days=-1", ("days", _DAYS)),
        ("days=7.0", ("days", _DAYS)),
        ("days=%D9%A7", ("days", _DAYS)),
        ("days=7%20", ("days", _DAYS)),
        ("days=7&days=7", ("days", "must be given once")),
        (f"path={'x' * 2049}", ("path", "must have at most 2048 characters")),
        (f"source={'x' * 256}", ("source", "must have at most 255 characters")),
        (f"campaign={'x' * 256}", ("campaign", "must have at most 255 characters")),
        ("device=mobile", ("device", "must be one of Desktop, Mobile, Tablet")),
        ("device=TV", ("device", "must be one of Desktop, Mobile, Tablet")),
        ("country=NOR", ("country", _COUNTRY)),
        ("country=N", ("country", _COUNTRY)),
        ("country=N1", ("country", _COUNTRY)),
        ("country=%C3%98S", ("country", _COUNTRY)),
        ("country=NO%0A", ("country", _COUNTRY)),
        ("country=NO&country=SE", ("country", "must be given once")),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else None,
)
def test_invalid_queries_are_refused(query: str, fault: tuple[str, str]) -> None:
    with pytest.raises(InvalidInput) as refused:
        _read(query)
    assert refused.value.errors == (FieldError(*fault),)


def test_every_invalid_field_is_reported() -> None:
    with pytest.raises(InvalidInput) as refused:
        _read(f"days=0&path={'x' * 3000}&source={'x' * 300}&campaign=a&campaign=b&device=d&country=c")
    fields = [error.field for error in refused.value.errors]
    assert fields == ["days", "path", "source", "campaign", "device", "country"]
