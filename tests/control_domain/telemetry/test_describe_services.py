"""Rates of the steps of a series."""

from analytics_queries.telemetry.request_rollups import Percentiles, RequestStep
from analytics_queries.telemetry.time_range import SECOND_NS, TimeRange
from control_domain.telemetry.describe_services import describe_service_series


def test_a_rate_is_of_the_part_of_a_step_that_is_over() -> None:
    """For a step that has not begun, with requests of a clock that is ahead, the rate covers the whole step."""
    unknown = Percentiles(None, None, None)
    steps = [RequestStep("shop", step, 30, 0, unknown) for step in (10, 11, 12)]
    within = TimeRange(630 * SECOND_NS, 690 * SECOND_NS)
    series = describe_service_series("shop", within, 60, RequestStep("shop", 0, 90, 0, unknown), steps)
    assert [point["rate"] for point in series["points"]] == [1.0, 1.0, 0.5]
    assert series["rate"] == 1.5
