"""When reminders follow, as a table."""

from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest

from notifications.groups.plan import next_reminder

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)


@pytest.mark.parametrize(
    ("remind_at", "sent", "opens", "is_open", "expected"),
    [
        pytest.param(None, "change", True, True, _HOUR, id="the first message"),
        pytest.param(
            timedelta(minutes=20), "change", True, True, timedelta(minutes=20), id="a further incident"
        ),
        pytest.param(_DAY, "change", True, True, _HOUR, id="a new incident while the others repeat daily"),
        pytest.param(-_HOUR, "change", True, True, _HOUR, id="a new incident after all were acknowledged"),
        pytest.param(_DAY, "change", False, True, _DAY, id="a resolution leaves the others"),
        pytest.param(_HOUR, "change", False, False, None, id="the last resolution"),
        pytest.param(timedelta(0), "reminder", False, True, _DAY, id="after a reminder"),
    ],
)
def test_the_next_reminder(
    remind_at: timedelta | None,
    sent: Literal["change", "reminder"],
    opens: bool,
    is_open: bool,
    expected: timedelta | None,
) -> None:
    before = None if remind_at is None else NOW + remind_at
    after = next_reminder(before, NOW, sent=sent, opens=opens, is_open=is_open)
    assert after == (None if expected is None else NOW + expected)
