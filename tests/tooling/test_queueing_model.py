"""`make simulate`: limiting cases of its models, conservation laws, and the recovery of known costs."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from loadtests.curves.points import Point, Results
from loadtests.simulate.calibrate import calibrate, fit
from loadtests.simulate.consumer_model import ConsumerLoad, forecast_consumers
from loadtests.simulate.costs import (
    BrokerCosts,
    ConsumerCosts,
    Costs,
    EdgeCosts,
    InsertCosts,
    read_costs,
    write_costs,
)
from loadtests.simulate.edge_model import EdgeLoad, mean_wait_of_md1, simulate_edge
from loadtests.simulate.plan import TARGET, make_plan

_EDGE = EdgeCosts(150.0, 4.0, 30.0, 80.0, broker_p50_ms=2.0, broker_p99_ms=6.0)
_CONSUMER = ConsumerCosts(record_us=40.0, event_us=2.0)
_INSERT = InsertCosts(insert_ms=30.0, row_ms=0.01, cpu_us=20_000.0, row_cpu_us=8.0)
_COSTS = Costs("2026-11-27", {}, _EDGE, _CONSUMER, _INSERT, BrokerCosts(40.0, 0.5, 127.0))


# Without an event loop and brokers the edge is a queue with one server and constant service times.
@pytest.mark.parametrize("utilisation", [0.3, 0.6, 0.8])
def test_a_bare_edge_is_an_md1_queue(utilisation: float) -> None:
    bare = EdgeCosts(1000.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    load = EdgeLoad(1000 * utilisation, 1, are_random=True, linger_ms=0.0, requests=50_000)
    forecast = simulate_edge(bare, load)
    assert forecast.utilisation == pytest.approx(utilisation, rel=0.03)
    assert forecast.mean_wait_ms == pytest.approx(mean_wait_of_md1(utilisation, 1.0), rel=0.1)


def test_a_rare_request_waits_for_linger_and_broker() -> None:
    costs = replace(_EDGE, broker_p99_ms=2.0)
    forecast = simulate_edge(costs, EdgeLoad(10, 100, requests=500))
    # Request, three turns (it, the timer, the response), a produce request.
    assert forecast.cpu_us == pytest.approx(150 + 400 + 3 * 30 + 80, rel=0.01)
    assert (forecast.turns, forecast.produces) == pytest.approx((3, 1), rel=0.01)
    # In addition, between none and all of a tick of the load generator.
    assert forecast.p50_ms == pytest.approx(5 + 2 + 1e-3 * forecast.cpu_us + 1.13 / 2, abs=0.7)


def test_nothing_is_lost_and_cpu_adds_up() -> None:
    for rate in (100, 1000, 3000):
        forecast = simulate_edge(_EDGE, EdgeLoad(rate, 1, are_random=True))
        assert forecast.per_second == pytest.approx(rate, rel=0.03)
        assert forecast.utilisation == pytest.approx(forecast.per_second * forecast.cpu_us / 1e6)
        assert forecast.cpu_us == pytest.approx(154 + 30 * forecast.turns + 80 * forecast.produces, rel=0.01)


def test_a_busier_edge_costs_less_for_each_request() -> None:
    forecasts = [simulate_edge(_EDGE, EdgeLoad(rate, 1)) for rate in (100, 300, 1000, 2000, 4000)]
    costs = [forecast.cpu_us for forecast in forecasts]
    busy = [forecast.utilisation for forecast in forecasts]
    assert costs == sorted(costs, reverse=True)
    assert busy == sorted(busy)


def test_an_edge_serves_no_more_than_its_core_can() -> None:
    forecast = simulate_edge(_EDGE, EdgeLoad(20_000, 1))
    assert forecast.utilisation == pytest.approx(1, abs=0.01)
    assert forecast.per_second < 1e6 / 154
    assert forecast.p99_ms > 500


def test_consumers_store_the_incoming_rate() -> None:
    for rate in (1e3, 1e5, 1e6):
        forecast = forecast_consumers(_CONSUMER, _INSERT, ConsumerLoad(rate, 100, 24, 12))
        assert forecast.rows_an_insert * forecast.inserts_per_second == pytest.approx(rate)


def test_a_quiet_topic_is_stored_after_the_wait_and_an_insert() -> None:
    forecast = forecast_consumers(_CONSUMER, _INSERT, ConsumerLoad(10, 1, 12, 3))
    assert forecast.longest_lag_s == pytest.approx(0.5 + 2 * 0.03, rel=0.01)
    assert forecast.mean_lag_s == pytest.approx(forecast.longest_lag_s - (0.5 + 0.03) / 2, rel=0.01)


def test_lag_grows_with_the_load_until_it_never_ends() -> None:
    lags = [
        forecast_consumers(_CONSUMER, _INSERT, ConsumerLoad(rate, 100, 12, 2)).longest_lag_s
        for rate in (1e3, 1e4, 1e5, 3e5, 6e5, 1e6)
    ]
    assert lags == sorted(lags)
    assert math.isfinite(lags[3])
    assert lags[-1] == math.inf
    overloaded = forecast_consumers(_CONSUMER, _INSERT, ConsumerLoad(1e6, 100, 12, 2))
    assert overloaded.utilisation > 1
    assert overloaded.rows_an_insert * overloaded.inserts_per_second < 1e6


def test_more_consumers_shorten_the_lag() -> None:
    lags = [
        forecast_consumers(_CONSUMER, _INSERT, ConsumerLoad(2e5, 100, 120, consumers)).longest_lag_s
        for consumers in (1, 2, 10, 60, 120)
    ]
    assert lags == sorted(lags, reverse=True)
    assert lags[0] > lags[-1]


def test_plan_has_sufficient_capacity() -> None:
    small, large = make_plan(_COSTS, 1e4, 100), make_plan(_COSTS, 1e6, 100)
    assert (small.edges, small.consumers, small.partitions) == (1, 1, 12)
    for plan in (small, large):
        assert plan.edges * plan.edge.per_second * 100 == pytest.approx(plan.events_per_second, rel=0.05)
        assert plan.edge.utilisation < TARGET * 1.1
        assert plan.stored.utilisation < TARGET * 1.01
        assert plan.partitions % plan.consumers == 0
        assert math.isfinite(plan.stored.longest_lag_s)
    assert large.edges > small.edges
    assert large.broker_cores == pytest.approx(100 * small.broker_cores)
    assert large.log_mb_per_second == pytest.approx(127.0)


def test_slow_inserts_take_more_consumers_than_their_cpu() -> None:
    slow = replace(_COSTS, insert=replace(_INSERT, row_ms=0.1))
    plan, slow_plan = make_plan(_COSTS, 1e6, 100), make_plan(slow, 1e6, 100)
    assert slow_plan.consumers > plan.consumers
    assert slow_plan.stored.utilisation < plan.stored.utilisation
    assert math.isfinite(slow_plan.stored.longest_lag_s)


def test_fitted_factors_are_correct_and_not_negative() -> None:
    rows = [(1.0, n) for n in (1, 10, 100)]
    assert fit(rows, [5 + 2 * n for _, n in rows]) == pytest.approx([5, 2])
    request, event = fit(rows, [2 * n - 0.5 for _, n in rows])
    assert request == 0
    assert event == pytest.approx(2, rel=0.3)
    with pytest.raises(ValueError, match="was not measured"):
        fit([], [])


def test_costs_are_recovered_from_results_of_the_model() -> None:
    points = []
    for events in (1, 10, 100, 1000):
        cpu = simulate_edge(_EDGE, EdgeLoad(None, events)).cpu_us
        points.append(Point("edge-batch", "with the accelerator", events, cpu / events))
        points.append(Point("broker-batch", "edge with the accelerator", events, 40 + events * 0.5))
        points.append(Point("consumer-batch", "12 partitions", events, 2 + 40 / events))
        points.append(Point("insert-time", "plan to commit, p50", events, 30 + events * 0.01))
        points.append(Point("insert-rows", "inserts and merges", events, 8 + 20_000 / events))
    for events, line in ((1, "1 event a request"), (100, "100 events a request")):
        for rate in (100, 300, 1000):
            forecast = simulate_edge(_EDGE, EdgeLoad(rate, events))
            points.append(Point("edge-rates", line, rate, forecast.cpu_us))
            points.append(Point("edge-latency", f"{line}, p50", rate, forecast.p50_ms))
            points.append(Point("edge-latency", f"{line}, p99", rate, forecast.p99_ms))
    found = calibrate(Results("2026-11-27", {}, False, {"all": points}))
    assert found.edge.request_us == pytest.approx(150, rel=0.1)
    assert found.edge.event_us == pytest.approx(4, rel=0.05)
    assert found.edge.turn_us == pytest.approx(30, rel=0.5)
    assert found.edge.turn_us * 3 + found.edge.produce_us == pytest.approx(170, rel=0.15)
    assert found.edge.broker_p50_ms == pytest.approx(2, abs=0.5)
    assert found.consumer.event_us == pytest.approx(2)
    assert found.consumer.record_us == pytest.approx(40)
    assert (found.insert.cpu_us, found.insert.row_cpu_us) == pytest.approx((20_000, 8))
    assert found.insert.insert_ms == pytest.approx(30)
    assert (found.broker.request_us, found.broker.event_us) == pytest.approx((40, 0.5))
    assert 50 < found.broker.event_bytes < 515


def test_costs_survive_a_round_trip(tmp_path: Path) -> None:
    assert read_costs(write_costs(_COSTS, tmp_path / "costs.json")) == _COSTS


def test_table_in_the_documentation_matches_the_model() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operations" / "scaling.md").read_text()
    costs = read_costs()
    plans = [make_plan(costs, events, 100) for events in (1e4, 1e6, 1e8)]
    rows = {
        "edges, processes": [plan.edges for plan in plans],
        "partitions of the topic": [plan.partitions for plan in plans],
        "consumers, processes": [plan.consumers for plan in plans],
        "rows of an insert": [round(plan.stored.rows_an_insert) for plan in plans],
        "inserts a second": [round(plan.stored.inserts_per_second) for plan in plans],
    }
    for name, values in rows.items():
        assert f"| {name} | {' | '.join(f'{value:,}' for value in values)} |" in page
