"""Times in which the alert scan had no data. Pure."""

from datetime import UTC, datetime, timedelta

import pytest

from control_workers.alert_scan.outages import Outage, find_outage, read_outage
from pipeline_contracts.times import to_epoch_ms

_NOW = datetime(2030, 5, 31, 12, tzinfo=UTC)


def _ago(seconds: int | None) -> datetime | None:
    return None if seconds is None else _NOW - timedelta(seconds=seconds)


# Seconds since the last scan and since the store became unreadable, and whether it is readable now; then begin and
# cause of the ended outage, and the time since which the store is unreadable.
@pytest.mark.parametrize(
    ("through", "blind_since", "is_readable", "outage", "still_blind"),
    [
        pytest.param(None, None, True, None, None, id="first scan"),
        pytest.param(None, None, False, None, 0, id="first scan, without the store"),
        pytest.param(30, None, True, None, None, id="as always"),
        pytest.param(170, None, True, None, None, id="a restart"),
        pytest.param(600, None, True, (600, "alert scan"), None, id="Pharos was down"),
        pytest.param(30, None, False, None, 0, id="the store is down"),
        pytest.param(30, 900, False, None, 900, id="the store is still down"),
        pytest.param(30, 100, True, None, None, id="the store was away for a moment"),
        pytest.param(30, 900, True, (900, "column store"), None, id="the store was down"),
        pytest.param(600, None, False, None, 600, id="Pharos is back before the store"),
        pytest.param(600, 900, True, (900, "alert scan"), None, id="the store was down, then Pharos"),
    ],
)
def test_outages(
    through: int | None,
    blind_since: int | None,
    is_readable: bool,
    outage: tuple[int, str] | None,
    still_blind: int | None,
) -> None:
    found, blind = find_outage(_ago(through), _ago(blind_since), _NOW, is_readable=is_readable)
    expected = None if outage is None else Outage(_ago(outage[0]) or _NOW, _NOW, outage[1])
    assert found == expected
    assert blind == _ago(still_blind)
    if found is not None:
        assert read_outage(found.to_note()) == found


@pytest.mark.parametrize(
    ("begin", "end", "is_covered"),
    [(3600, 0, True), (3700, -20, True), (3480, 60, True), (3600, 1800, False), (300, 0, False)],
)
def test_reported_outage(begin: int, end: int, is_covered: bool) -> None:
    outage = Outage(_NOW - timedelta(hours=1), _NOW, "alert scan")
    reported = [to_epoch_ms(_NOW - timedelta(seconds=seconds)) for seconds in (begin, end)]
    assert outage.is_covered(reported[0], reported[1]) is is_covered
