"""Due times of schedules, including changes of the clock."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from pipeline_contracts.schedules import BadSchedule, Schedule, check_schedule, next_due


def _dues(schedule: Schedule, after: datetime, count: int) -> list[str]:
    """Return the next due times in UTC."""
    at = int(after.timestamp() * 1000)
    dues = []
    for _ in range(count):
        at = next_due(schedule, at)
        dues.append(datetime.fromtimestamp(at / 1000, UTC).strftime("%m-%d %H:%M"))
    return dues


def test_period_counts_from_the_given_time() -> None:
    assert next_due(Schedule(90), 1_000_123) == 1_090_123


OSLO, NEW_YORK, LORD_HOWE = "Europe/Oslo", "America/New_York", "Australia/Lord_Howe"
CRON = [
    # (expression, zone, local time before, dues in UTC)
    ("0 3 * * *", "UTC", (2026, 3, 28, 12, 0), ["03-29 03:00", "03-30 03:00"]),
    # Oslo springs forward on 29 March at 02:00 (01:00 UTC): 02:30 is skipped, and its job runs right after the gap.
    ("30 2 * * *", OSLO, (2026, 3, 28, 12, 0), ["03-29 01:00", "03-30 00:30"]),
    ("0 3 * * *", OSLO, (2026, 3, 28, 12, 0), ["03-29 01:00", "03-30 01:00"]),
    ("*/20 * * * *", OSLO, (2026, 3, 29, 1, 30), ["03-29 00:40", "03-29 01:00", "03-29 01:20"]),
    ("0 * * * *", OSLO, (2026, 3, 29, 0, 30), ["03-29 00:00", "03-29 01:00", "03-29 02:00"]),
    # It falls back on 25 October at 03:00 (01:00 UTC): 02:30 occurs twice, and its job runs once.
    ("30 2 * * *", OSLO, (2026, 10, 24, 12, 0), ["10-25 00:30", "10-26 01:30"]),
    ("*/30 * * * *", OSLO, (2026, 10, 25, 1, 50), ["10-25 00:00", "10-25 00:30", "10-25 01:00", "10-25 01:30"]),
    ("0 * * * *", OSLO, (2026, 10, 25, 1, 30), ["10-25 00:00", "10-25 01:00", "10-25 02:00"]),
    # New York: 8 March at 02:00 (07:00 UTC) and 1 November at 02:00 (06:00 UTC).
    ("15 2 * * *", NEW_YORK, (2026, 3, 7, 12, 0), ["03-08 07:00", "03-09 06:15"]),
    ("30 1 * * *", NEW_YORK, (2026, 10, 31, 12, 0), ["11-01 05:30", "11-02 06:30"]),
    # Lord Howe moves by half an hour, at 02:00: 5 April back to 01:30, 4 October on to 02:30.
    ("45 1 * * *", LORD_HOWE, (2026, 4, 4, 12, 0), ["04-04 14:45", "04-05 15:15"]),
    ("15 2 * * *", LORD_HOWE, (2026, 10, 3, 12, 0), ["10-03 15:30", "10-04 15:15"]),
    ("0 0 31 * *", "UTC", (2026, 1, 31, 12, 0), ["03-31 00:00", "05-31 00:00"]),
    ("0 0 29 2 *", "UTC", (2026, 1, 1, 0, 0), ["02-29 00:00"]),
    ("0 9 * * 1-5", "UTC", (2026, 11, 20, 12, 0), ["11-23 09:00", "11-24 09:00"]),
]  # fmt: skip


@pytest.mark.parametrize(("cron", "zone", "after", "dues"), CRON)
def test_due_times_of_cron_expressions(cron: str, zone: str, after: tuple[int, ...], dues: list[str]) -> None:
    begin = datetime(*after, tzinfo=ZoneInfo(zone))  # type: ignore[misc,arg-type]
    assert _dues(Schedule(cron=cron, timezone=zone), begin, len(dues)) == dues


def test_next_due_time_is_after_the_given_due_time() -> None:
    at = int(datetime(2026, 11, 20, 3, tzinfo=UTC).timestamp() * 1000)
    assert next_due(Schedule(cron="0 3 * * *"), at) == at + 86_400_000
    assert next_due(Schedule(cron="0 3 * * *"), at - 1) == at


@pytest.mark.parametrize(
    "schedule",
    [Schedule(1), Schedule(366 * 86_400), Schedule(cron="0 3 * * *"), Schedule(60, timezone="Asia/Kolkata")],
)
def test_accepts_valid_schedules(schedule: Schedule) -> None:
    check_schedule(schedule)


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (Schedule(), "Give either a period or a cron expression."),
        (Schedule(60, "* * * * *"), "Give either a period or a cron expression."),
        (Schedule(0), "A period lasts from 1 second to 366 days."),
        (Schedule(367 * 86_400), "A period lasts from 1 second to 366 days."),
        (Schedule(cron="x"), "'x' is no cron expression of five fields."),
        (Schedule(cron="60 * * * *"), "'60 * * * *' is no cron expression: Bad minute."),
        (Schedule(cron="0 0 30 2 *"), "'0 0 30 2 *' is no cron expression: Bad day-of-month."),
        (Schedule(cron="* * * * * *"), "'* * * * * *' is no cron expression of five fields"),
        (Schedule(cron="@daily"), "'@daily' is no cron expression of five fields."),
        (Schedule(60, timezone="Mars/Base"), "'Mars/Base' is no time zone."),
        (Schedule(60, timezone="../etc/passwd"), "'../etc/passwd' is no time zone."),
        (Schedule(60, timezone=""), "'' is no time zone."),
    ],
)
def test_refuses_invalid_schedules(schedule: Schedule, message: str) -> None:
    with pytest.raises(BadSchedule) as refused:
        check_schedule(schedule)
    assert str(refused.value).startswith(message)
