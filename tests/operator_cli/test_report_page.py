"""The page that `pharos report` prints."""

import io
from datetime import date, timedelta
from typing import Any

import pytest
from rich.console import Console

from operator_cli.sites.report_chart import draw_bar, draw_columns, merge_values
from operator_cli.sites.report_page import format_change, format_metric, format_seconds, show_report
from operator_cli.sites.report_tables import LISTS

TAG = '<script defer src="https://t.example/tracker/v1.js" data-site="sit_x"></script>'
_METRICS = ("pageviews", "visitors", "visits", "conversion_rate", "bounce_rate", "visit_duration")
_VITALS = ("lcp", "inp", "cls", "fcp", "ttfb")
_FILTERS = ("path", "source", "campaign", "device", "country")


def empty_report(days: int = 30) -> dict[str, Any]:
    """A report of a site without visits."""
    last = date(2026, 11, 20)
    first = last - timedelta(days=days - 1)
    moments = [(first + timedelta(days=n)).isoformat() for n in range(days)]
    if days == 1:
        moments = [f"2026-11-20T{hour:02}:00:00+01:00" for hour in range(14)]
    return {
        "site": {"id": 7, "name": "Shop [red]", "timezone": "Europe/Oslo", "tracker_id": "sit_x"},
        "period": {
            "days": days,
            "from": first.isoformat(),
            "to": last.isoformat(),
            "interval": "hour" if days == 1 else "day",
            "timezone": "Europe/Oslo",
        },
        "filters": dict.fromkeys(_FILTERS),
        "metrics": {name: {"value": 0, "previous": 0, "change": 0.0} for name in _METRICS},
        "series": [{"at": at, "pageviews": 0, "visitors": 0, "visits": 0} for at in moments],
        **{name: [] for name in LISTS},
        "goals": [],
        "page_speed": {name: {"p75": None, "unit": "ms", "rating": None, "samples": 0} for name in _VITALS},
    }


def full_report(days: int = 30) -> dict[str, Any]:
    """A report with every section."""
    report = empty_report(days)
    for n, entry in enumerate(report["series"]):
        entry["pageviews"] = 1000 + n
    values = {
        "pageviews": (123_456, 100_000, 23.5),
        "visitors": (50, 60, -16.7),
        "visits": (80, 80, 0.0),
        "conversion_rate": (2.1, 1.0, 1.1),
        "bounce_rate": (40.0, 38.0, 2.0),
        "visit_duration": (83, 60, 38.3),
    }
    for name, (value, previous, change) in values.items():
        report["metrics"][name] = {"value": value, "previous": previous, "change": change}
    for name, (title, number) in LISTS.items():
        report[name] = [
            {"name": f"1st {title[:15]}", "visitors": 50, number: 80},
            {"name": f"2nd {title[:15]}", "visitors": 25, number: 40},
        ]
    report["goals"] = [
        {
            "id": 3,
            "name": "Purchase",
            "conversions": 1200,
            "visitors": 10,
            "conversion_rate": 2.1,
            "revenue": [{"currency": "EUR", "amount": 410.0}, {"currency": "NOK", "amount": 1410.5}],
        },
        {"id": 4, "name": "Signup", "conversions": 0, "visitors": 0, "conversion_rate": 0.0, "revenue": []},
    ]
    report["page_speed"]["lcp"] = {"p75": 1830.0, "unit": "ms", "rating": "good", "samples": 900}
    report["page_speed"]["cls"] = {"p75": 0.3, "unit": "", "rating": "poor", "samples": 9}
    report["page_speed"]["ttfb"] = {"p75": 900.0, "unit": "ms", "rating": "needs-improvement", "samples": 5}
    return report


def page(report: dict[str, Any], width: int = 100, *, colours: bool = False) -> str:
    console = Console(
        file=io.StringIO(),
        width=width,
        highlight=False,
        force_terminal=colours,
        color_system="standard" if colours else None,
        legacy_windows=False,
        _environ={},
    )
    show_report(console, report, TAG)
    output = console.file.getvalue()  # type: ignore[attr-defined]
    return str(output)


def test_a_full_report_shows_every_section() -> None:
    output = page(full_report())
    for part in (
        "Shop [red]  2026-10-22 to 2026-11-20  Europe/Oslo",
        "50 a day",
        "123,456",
        "▲ 23.5 %",
        "▼ 16.7 %",
        "= unchanged",
        "▲ 1.1 points",
        "1m 23s",
        "before 38.0 %",
        "Page views by day\n",
        "22 Oct",
        "20 Nov",
        "Purchase",
        "1,410.50 NOK",
        "LCP  Largest Contentful Paint",
        "1,830 ms",
        "needs improvement",
    ):
        assert part in output, part
    for title, _ in LISTS.values():
        assert all(f"{order} {title[:15]}" in output for order in ("1st", "2nd")), title
    # Half of the visitors, half of the bar.
    assert "██████████        50" in output and " █████             25" in output
    # Web Vitals that were not measured are not shown.
    assert "INP" not in output


@pytest.mark.parametrize("days", [1, 7, 30, 90, 365])
@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_no_line_is_wider_than_the_terminal(days: int, width: int) -> None:
    report = full_report(days)
    report["pages"][0]["name"] = "/long" * 100
    report["goals"][0]["name"] = "long " * 20
    output = page(report, width)
    assert max(len(line.rstrip()) for line in output.splitlines()) <= width
    assert "Visitors" in output and "…" in output


def test_days_share_columns_on_a_narrow_terminal() -> None:
    assert "Page views by day, 4 days a column" in page(full_report(365))
    assert "Page views by day\n" in page(full_report(90))
    output = page(full_report(1))
    assert "Page views by hour\n" in output and "00:00" in output and "13:00" in output


def test_shared_columns_are_sums_and_the_last_one_is_complete() -> None:
    assert merge_values([1, 2, 3, 4, 5], 2) == [1, 5, 9]
    assert merge_values([1, 2, 3, 4], 2) == [3, 7]
    assert merge_values([1, 2, 3], 1) == [1, 2, 3]
    assert merge_values([5], 3) == [5]


def test_an_empty_report_shows_the_script_tag() -> None:
    output = page(empty_report())
    assert "No visitors yet in these days. Put this tag" in output
    assert TAG in output
    assert "pharos site show 7" in output
    assert "Page views" not in output


def test_a_script_tag_longer_than_a_line_is_not_wrapped() -> None:
    assert TAG in page(empty_report(), 60)


def test_an_empty_filtered_report_suggests_fewer_filters() -> None:
    report = empty_report()
    report["filters"]["country"] = "NO"
    output = page(report)
    assert "Visits with country NO" in output
    assert "No visits in these days with these filters." in output
    assert TAG not in output


def test_one_page_view_is_a_report() -> None:
    report = empty_report()
    report["metrics"]["pageviews"]["value"] = report["series"][-1]["pageviews"] = 1
    report["pages"] = [{"name": "/", "visitors": 1, "pageviews": 1}]
    output = page(report)
    assert "Pages" in output and "No visits" not in output


def test_control_characters_from_visitors_are_removed() -> None:
    report = full_report()
    nasty = "\x1b[31m[bold]x\x07\u202e\n"
    report["site"]["name"] = report["pages"][0]["name"] = report["goals"][0]["name"] = nasty
    report["goals"][0]["revenue"] = [{"currency": "\x1b[2J", "amount": 1.0}]
    report["filters"]["source"] = nasty
    output = page(report)
    assert not {"\x1b", "\x07", "\u202e"} & set(output)
    assert "[bold]x" in output


@pytest.mark.parametrize(
    ("name", "previous", "change", "text", "colour"),
    [
        ("visits", 100, 12.3, "▲ 12.3 %", "green"),
        ("visits", 100, -1234.5, "▼ 1,234.5 %", "red"),
        ("conversion_rate", 2.5, -0.4, "▼ 0.4 points", "red"),
        ("bounce_rate", 0, 2.0, "▲ 2.0 points", "red"),
        ("bounce_rate", 50, -2.0, "▼ 2.0 points", "green"),
        ("visits", 100, 0.0, "= unchanged", "dim"),
        # From nothing, the API reports 100 %.
        ("visit_duration", 0, 100.0, "▲", "green"),
    ],
)
def test_a_change_has_an_arrow_and_the_colour_of_better_or_worse(
    name: str, previous: float, change: float, text: str, colour: str
) -> None:
    metric = {"value": 1, "previous": previous, "change": change}
    output = format_change(name, metric, had_visits=True)
    assert (output.plain, output.style) == (text, colour)


def test_the_first_visits_are_compared_with_nothing() -> None:
    report = empty_report()
    first = {"visitors": 0, "visits": 2, "pageviews": 3, "bounce_rate": 100.0, "visit_duration": 5}
    for name, value in first.items():
        report["metrics"][name] = {"value": value, "previous": 0, "change": 100.0 if value else 0.0}
    output = page(report)
    assert "under 1 a day" in output and "0 a day" not in output.replace("100", "")
    assert output.count("new ") == 5 and output.count("none before") == 6
    assert not {"▲", "unchanged", "points"} & set(output.split())
    report["period"]["days"] = 1
    assert "a day" not in page(report)


@pytest.mark.parametrize(("width", "rows"), [(60, 2), (80, 2), (100, 1)])
def test_the_metrics_are_in_rows_of_the_same_length(width: int, rows: int) -> None:
    heads = [line for line in page(full_report(), width).splitlines() if "╭─" in line]
    assert [line.count("╭─") for line in heads] == [6 // rows] * rows


def test_ratings_have_their_colours() -> None:
    output = page(full_report(), colours=True)
    for colour, value in ((32, "good"), (33, "needs improvement"), (31, "poor")):
        assert f"\x1b[{colour}m{value}" in output


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (45, "45s"), (60, "1m 0s"), (83, "1m 23s"), (3599, "59m 59s"), (3725, "1h 2m")],
)
def test_durations_are_formatted(seconds: int, text: str) -> None:
    assert format_seconds(seconds) == format_metric("visit_duration", seconds) == text


def test_bars_are_proportional_to_an_eighth_of_a_character() -> None:
    assert [draw_bar(value, 80, 10) for value in (80, 40, 4, 1, 0)] == ["█" * 10, "█" * 5, "▌", "▏", ""]
    assert draw_bar(1, 1_000_000, 10) == "▏"
    assert draw_bar(0, 0, 10) == draw_bar(5, 10, 0) == ""


def test_columns_rise_from_the_bottom() -> None:
    assert draw_columns([4, 2, 1, 0], 4, 2, 1) == ["█", "██▄"]
    assert draw_columns([1, 1_000_000], 1_000_000, 1, 3) == ["▁▁ ██"]
    assert draw_columns([0, 0], 0, 2, 2) == ["", ""]
