"""Whether a cron expression ever occurs, compared with the library's own search for the next time."""

from datetime import UTC, datetime

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pipeline_contracts.cron_days import can_occur

_START = datetime(2024, 1, 1, tzinfo=UTC)


def _is_found(expression: str) -> bool:
    """Search with the library, which gives up after fifty years."""
    try:
        next(CronSim(expression, _START))
    except StopIteration:
        return False
    return True


# Expressions, and whether they occur.
_DAYS = {
    "* * * * *": True,
    "0 0 29 2 *": True,
    "0 0 */28 2 1#5": True,  # the 29th of February, where it is a Monday: every 28 years
    "0 0 */31 * 1#5": False,
    "0 0 */31 * 1#1": True,
    "0 0 */2 2 1#5": True,
    "0 0 */30 2-11 1#4": False,
    "0 0 L 2 */3": True,
    "0 0 * 2 5L": True,
    "0 0 30 2 1#5": True,  # no star: the day or the weekday
    "0 0 LW 4 *": True,
    "0 0 */15 * */5": True,
}


@pytest.mark.parametrize(("expression", "occurs"), _DAYS.items())
def test_can_occur(expression: str, occurs: bool) -> None:
    assert can_occur(CronSim(expression, _START)) is occurs
    assert _is_found(expression) is occurs


_days = st.lists(
    st.sampled_from(("*/31", "*/30", "*/28", "*/15", "L", "LW", "31", "29", "30", "1", "*")), min_size=1
)
_months = st.lists(st.sampled_from(("2", "4", "6-7", "*/5", "*", "12")), min_size=1)
_weekdays = st.lists(
    st.sampled_from(("1#5", "0#1", "7#5", "5L", "*/5", "*/7", "1", "6#3", "0L", "*")), min_size=1
)


@settings(max_examples=200)
@given(_days, _months, _weekdays)
def test_agrees_with_the_search_of_the_library(
    days: list[str], months: list[str], weekdays: list[str]
) -> None:
    expression = f"0 0 {','.join(days)} {','.join(months)} {','.join(weekdays)}"
    try:
        cron = CronSim(expression, _START)
    except CronSimError:
        assume(False)
    assert can_occur(cron) is _is_found(expression)
