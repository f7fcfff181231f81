"""Conversion of times."""

from datetime import datetime

import pytest

from pipeline_contracts.times import format_epoch_ms, format_time, from_epoch_ms, to_epoch_ms


@pytest.mark.parametrize(
    "milliseconds", [0, 1, 999, 1_795_129_200_123, 8_640_000_000_001, -1, -62_135_596_800_000]
)
def test_time_survives_a_round_trip_to_the_millisecond(milliseconds: int) -> None:
    assert to_epoch_ms(from_epoch_ms(milliseconds)) == milliseconds


def test_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="zone"):
        to_epoch_ms(datetime(2026, 1, 1))


@pytest.mark.parametrize("milliseconds", [0, -1, -999, -1000, 999, 1_795_000_000_000, 1_795_000_000_001])
def test_milliseconds_are_written_as_times_are(milliseconds: int) -> None:
    assert format_epoch_ms(milliseconds) == format_time(from_epoch_ms(milliseconds))
