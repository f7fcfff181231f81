"""The oracle itself, against results computed by hand."""

import random
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.analytics_queries.oracle.edges import to_ms
from tests.analytics_queries.oracle.figures import mean, metric, percent, revenue
from tests.analytics_queries.oracle.local_days import current_period, day_start, previous_period
from tests.analytics_queries.oracle.report import report, source_of
from tests.analytics_queries.oracle.sent import Filters, Goal, Sent, Site
from tests.analytics_queries.oracle.traffic import ZONES, moments, random_traffic
from tests.analytics_queries.oracle.visits import DAY, HOUR, MINUTE, all_visits

NOON = to_ms(datetime(2026, 3, 10, 12, tzinfo=UTC))
MIDNIGHT = NOON - 12 * HOUR
GOALS = (Goal(2, "Purchase", "purchase", None), Goal(1, "Thanks", None, "/thanks"))
SITE = Site(1, "Shop", "UTC", frozenset({"shop.example"}), GOALS)


def view(ms: int, path: str = "/", who: str = "1", received: int | None = None, **more: Any) -> Sent:
    """Return a page view at `ms`, received then or at `received`; `more` are members of the event."""
    event = {"id": str(uuid.uuid4()), "type": "pageview", "path": path, **more}
    if received is not None:
        event["occurred_at"] = datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
    return Sent(ms if received is None else received, who, "browser", "NO", event)


def custom_event(ms: int, name: str, who: str = "1", path: str = "/", **properties: Any) -> Sent:
    """Return a custom event at `ms`."""
    return view(ms, path, who, type="event", properties={"name": name, **properties})


def counts(sent: list[Sent]) -> list[int]:
    """Return the number of events of each visit, in order of their starts."""
    return [len(visit.events) for visit in all_visits(sent)]


def today(
    sent: list[Sent], filters: Filters | None = None, now_ms: int = NOON, days: int = 1
) -> dict[str, Any]:
    return report(sent, SITE, days, filters or Filters(), now_ms)


def test_thirty_minutes_join_and_a_millisecond_more_does_not() -> None:
    assert counts([view(MIDNIGHT + HOUR), view(MIDNIGHT + HOUR + 30 * MINUTE)]) == [2]
    assert counts([view(MIDNIGHT + HOUR), view(MIDNIGHT + HOUR + 30 * MINUTE + 1)]) == [1, 1]


def test_an_early_event_that_arrives_late_joins_from_before() -> None:
    late = view(NOON - 30 * MINUTE, received=NOON + HOUR)
    assert counts([view(NOON), late]) == [2]
    assert all_visits([view(NOON), late])[0].first_ms == NOON - 30 * MINUTE


def test_a_late_event_between_two_visits_joins_the_newer_and_merges_nothing() -> None:
    between = view(NOON + 20 * MINUTE, received=NOON + 2 * HOUR)
    visits = all_visits([view(NOON), view(NOON + 40 * MINUTE), between])
    assert [len(visit.events) for visit in visits] == [1, 2]


def test_visit_continues_over_midnight_within_the_first_half_hour() -> None:
    assert counts([view(MIDNIGHT - MINUTE), view(MIDNIGHT + 29 * MINUTE), view(MIDNIGHT + 40 * MINUTE)]) == [
        3
    ]
    assert counts([view(MIDNIGHT), view(MIDNIGHT + 30 * MINUTE, received=MIDNIGHT + 31 * MINUTE)]) == [2]
    assert counts([view(MIDNIGHT + 5 * MINUTE), view(MIDNIGHT - 5 * MINUTE, received=MIDNIGHT + HOUR)]) == [2]
    assert counts(
        [view(MIDNIGHT + 31 * MINUTE), view(MIDNIGHT + 1 * MINUTE - 1, received=MIDNIGHT + HOUR)]
    ) == [1, 1]


def test_a_late_event_finds_no_bridge_once_the_salt_before_is_deleted() -> None:
    sent = [view(MIDNIGHT - MINUTE), view(MIDNIGHT + MINUTE, received=MIDNIGHT + DAY)]
    assert counts(sent) == [1, 1]
    assert counts([sent[0], view(MIDNIGHT + MINUTE, received=MIDNIGHT + DAY - 1)]) == [2]


def test_session_continues_over_pauses_up_to_a_day() -> None:
    assert counts([view(MIDNIGHT + HOUR, session="s"), view(NOON, session="s", who="2"), view(NOON)]) == [
        2,
        1,
    ]
    begin = MIDNIGHT + 10 * MINUTE
    assert counts([view(begin, session="s"), view(begin + DAY, session="s")]) == [2]
    assert counts([view(begin, session="s"), view(begin + DAY + 1, session="s")]) == [1, 1]


def test_a_repeat_counts_again_only_after_two_days() -> None:
    assert counts([view(NOON, id="same"), view(NOON + 48 * HOUR, id="same")]) == [1]
    assert counts([view(NOON, id="same"), view(NOON + 49 * HOUR, id="same")]) == [1, 1]


@pytest.mark.parametrize(
    "offset,is_used", [(-DAY, True), (-DAY - 1, False), (5 * MINUTE, True), (5 * MINUTE + 1, False)]
)
def test_an_events_own_time_is_used_within_its_bounds(offset: int, is_used: bool) -> None:
    visit = all_visits([view(NOON + offset, received=NOON)])[0]
    assert visit.first_ms == (NOON + offset if is_used else NOON)


def test_rounding_is_half_up_and_half_away_from_zero() -> None:
    assert (mean(5, 2), mean(7, 3), mean(0, 0)) == (3, 2, 0)
    assert (percent(1, 2000), percent(1, 3), percent(1, 0)) == (0.1, 33.3, 0.0)
    assert metric(7, 8, False)["change"] == -12.5
    assert metric(1999, 2000, False)["change"] == -0.1
    assert (metric(3, 0, False)["change"], metric(0, 0, False)["change"]) == (100.0, 0.0)
    assert metric(33.3, 50.1, True)["change"] == -16.8
    assert revenue({"revenue": "0.0000005", "currency": "eur"}) == ("EUR", Decimal("0.000001"))
    assert revenue({"revenue": True, "currency": "EUR"}) is None


@pytest.mark.parametrize(
    "more,rate",
    [
        ([], 100.0),
        ([custom_event(NOON - HOUR, "Engagement", visible_seconds=9.999)], 100.0),
        ([custom_event(NOON - HOUR, "Engagement", visible_seconds=5)], 100.0),
        ([custom_event(NOON - HOUR + at, "Engagement", visible_seconds=5) for at in (0, 1)], 0.0),
        ([custom_event(NOON - HOUR, "404")], 100.0),
        ([custom_event(NOON - HOUR, "signup")], 0.0),
        ([view(NOON - HOUR)], 0.0),
    ],
)
def test_a_bounce_is_one_view_without_interaction_or_ten_visible_seconds(
    more: list[Sent], rate: float
) -> None:
    assert today([view(NOON - HOUR - 1), *more])["metrics"]["bounce_rate"]["value"] == rate


def test_silent_events_alone_are_no_visit() -> None:
    vital = custom_event(NOON - HOUR, "Web Vital", metric="LCP", value=2500, id="a")
    alone = today([vital])
    assert alone["metrics"]["visits"]["value"] == 0
    assert alone["page_speed"]["lcp"] == {"p75": None, "unit": "ms", "rating": None, "samples": 0}
    with_view = today([vital, view(NOON - HOUR + MINUTE)])
    assert with_view["metrics"]["visit_duration"]["value"] == 60
    assert with_view["page_speed"]["lcp"] == {"p75": 2500.0, "unit": "ms", "rating": "good", "samples": 1}


def test_a_vital_counts_by_its_last_value_and_p75_is_one_of_them() -> None:
    def cls(after: int, value: Any, id: str) -> Sent:
        return custom_event(NOON - HOUR + after, "Web Vital", metric="cls", value=value, id=id)

    sent = [view(NOON - HOUR), cls(0, 0.9, "a"), cls(1, 0.1, "a"), cls(2, 0.2, "b"), cls(3, 0.3, "c")]
    speeds = today([*sent, cls(4, 0.4, "d"), cls(5, "9", "e"), cls(6, -1, "f"), cls(7, 9, "")])["page_speed"]
    assert speeds["cls"] == {"p75": 0.3, "unit": "", "rating": "poor", "samples": 4}
    assert list(speeds) == ["lcp", "inp", "cls", "fcp", "ttfb"]


def test_half_a_day_is_compared_with_half_a_day() -> None:
    sent = [view(NOON - DAY - 1), view(NOON - DAY + HOUR, who="2"), view(NOON - 1), view(NOON, who="3")]
    views = today(sent)["metrics"]["pageviews"]
    assert views == {"value": 1, "previous": 1, "change": 0.0}


def test_the_cut_is_elapsed_time_and_never_more_than_the_day_has() -> None:
    changed = date(2026, 3, 29)
    start = day_start(changed, "Europe/Oslo")
    assert day_start(date(2026, 3, 30), "Europe/Oslo") - start == 23 * HOUR
    assert previous_period("Europe/Oslo", 1, start + 5 * HOUR).end == start - DAY + 5 * HOUR
    assert previous_period("Europe/Oslo", 1, start + 23 * HOUR + 23 * HOUR + MINUTE).end == start + 23 * HOUR


def test_a_day_without_midnight_begins_at_one_and_has_twenty_three_hours() -> None:
    start = day_start(date(2024, 4, 26), "Africa/Cairo")
    slots = [at for at, _, _ in current_period("Africa/Cairo", 1, start + 22 * HOUR + MINUTE).slots()]
    assert (slots[0], slots[-1], len(slots)) == ("2024-04-26T01:00:00+03:00", "2024-04-26T23:00:00+03:00", 23)


def test_lists_have_five_entries_by_visitors_then_code_point() -> None:
    sent = [
        view(NOON - HOUR, path, str(who))
        for who, path in enumerate(["/b", "/a", "/Z", "/é", "/c", "/c", "/d"])
    ]
    names = [entry["name"] for entry in today(sent)["pages"]]
    assert names == ["/c", "/Z", "/a", "/b", "/d"]


def test_a_visit_has_the_attributes_of_its_first_event_by_time_then_id() -> None:
    at = NOON - HOUR
    sent = [view(at, "/b", utm_source="late", id="b"), view(at, "/a", id="a", referrer_host="www.google.no")]
    found = today(sent)
    assert found["sources"] == [{"name": "Google", "visitors": 1, "visits": 1}]
    assert (found["entry_pages"][0]["name"], found["exit_pages"][0]["name"]) == ("/a", "/b")


def test_sources_go_by_tag_then_own_host_then_table_then_host() -> None:
    hosts = SITE.hosts
    assert source_of({"utm_source": " mail ", "referrer_host": "t.co"}, hosts) == "mail"
    assert source_of({"utm_source": " ", "referrer_host": "www.shop.example"}, hosts) == "Direct / None"
    assert source_of({"referrer_host": "l.facebook.com"}, hosts) == "Facebook"
    assert source_of({"referrer_host": "www.Other.example"}, hosts) == "other.example"


def test_goals_count_conversions_visitors_and_revenue() -> None:
    at = NOON - HOUR
    bought = [custom_event(at, "purchase", revenue=amount, currency="eur") for amount in (0.1, "0.2", "x")]
    sent = [view(at), *bought, view(at, "/thanks"), view(at, who="2"), view(at, who="3")]
    found = today(sent)
    assert [goal["id"] for goal in found["goals"]] == [1, 2]
    assert found["goals"][1] == {
        "id": 2,
        "name": "Purchase",
        "conversions": 3,
        "visitors": 1,
        "conversion_rate": 33.3,
        "revenue": [{"currency": "EUR", "amount": 0.3}],
    }
    assert found["metrics"]["conversion_rate"]["value"] == 33.3


def test_a_path_filter_keeps_visits_that_saw_it_and_judges_those_that_entered_there() -> None:
    at = NOON - HOUR
    sent = [view(at, "/a"), view(at + MINUTE, "/b"), view(at, "/b", "2"), view(at, "/a", "3")]
    metrics = today(sent, Filters(path="/b"))["metrics"]
    shown = {
        name: metrics[name]["value"] for name in ("pageviews", "visits", "bounce_rate", "visit_duration")
    }
    assert shown == {"pageviews": 3, "visits": 2, "bounce_rate": 100.0, "visit_duration": 0}


def test_visitors_are_the_mean_of_days_rounded_half_up() -> None:
    sent = [
        view(NOON - day * DAY - HOUR, who=str(number))
        for day in range(7)
        for number in range(3 if day else 7)
    ]
    assert today(sent, days=7)["metrics"]["visitors"]["value"] == 4
    assert [entry["visitors"] for entry in today(sent, days=7)["series"]] == [3, 3, 3, 3, 3, 3, 7]


@pytest.mark.parametrize("zone", ZONES)
def test_random_traffic_arrives_in_order_and_sums_of_its_series_agree(zone: str) -> None:
    rng = random.Random(zone)
    now = moments(rng, zone)
    sent = random_traffic(rng, zone, now)
    received = [event.received_ms for event in sent]
    assert received == sorted(received) and received[-1] <= to_ms(now) and 100 < len(sent) < 500
    for days in (1, 7, 30):
        site = Site(1, "Shop", zone, SITE.hosts, GOALS)
        found = report(sent, site, days, Filters(), to_ms(now))
        for name in ("pageviews", "visits"):
            assert sum(entry[name] for entry in found["series"]) == found["metrics"][name]["value"]
