"""The releases of the demo shop over time."""

from datetime import UTC, datetime, timedelta

from demo.story.heartbeats import JOBS, list_past_outages, list_past_pings
from demo.story.releases import (
    COMMITS,
    FAULTY_VERSION,
    FIXED_VERSION,
    NEXT_COMMITS,
    Timeline,
    list_past_deployments,
)
from pipeline_contracts.times import to_epoch_ms

BEGAN = datetime(2026, 11, 26, 20, 0, tzinfo=UTC)
TIMELINE = Timeline(BEGAN)


def test_deployments_are_in_order_and_of_known_commits() -> None:
    past = list_past_deployments()
    hours = [each.hours_ago for each in past]
    assert hours == sorted(hours, reverse=True)
    assert {each.version for each in past} == {commit.version for commit in COMMITS}
    built = [each for each in past if each.trigger != "rollback"]
    committed = {commit.version: commit.hours_ago for commit in COMMITS}
    assert all(each.hours_ago < committed[each.version] or each.outcome == "canceled" for each in built)


def test_the_live_version_follows_deployments_and_rollbacks() -> None:
    faulty_s, fixed_s = TIMELINE.release_times()
    cases = {
        BEGAN - timedelta(days=60): COMMITS[0].version,
        datetime.fromtimestamp(faulty_s, UTC): FAULTY_VERSION,
        datetime.fromtimestamp(fixed_s, UTC): FIXED_VERSION,
        TIMELINE.at(259): "2.11.0",
        TIMELINE.at(258): "2.10.0",
        BEGAN: NEXT_COMMITS[-1].version,
    }
    assert {moment: TIMELINE.version_at(moment) for moment in cases} == cases


def test_past_runs_end_before_the_start_and_failures_are_outages() -> None:
    for job in JOBS:
        pings = list(list_past_pings(job, BEGAN))
        assert pings == list(list_past_pings(job, BEGAN))
        assert all(ping.at_ms < to_epoch_ms(BEGAN) for ping in pings)
        assert sum(ping.signal == "failure" for ping in pings) == len(job.fails_ago)
    outages = list(list_past_outages(BEGAN))
    assert all(outage.down_ms < outage.up_ms for outage in outages)
    # The broken job has not recovered.
    assert {outage.job.name for outage in outages} == {"nightly-backup", "sync-stock", "refresh-search-index"}
