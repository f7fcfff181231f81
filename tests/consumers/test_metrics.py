"""The consumers' metrics in the Prometheus format."""

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from consumers.metrics import ConsumerMetrics, ConsumersCollector
from tests.support.engines import skip_if_missing
from tests.support.scrape import check_scrape, parse_with_expfmt, read_scrape


def _two_consumers() -> str:
    collector = ConsumersCollector()
    for topic, table, rows in (("a", "shared", 2), ("b", "shared", 3), ("c", "own", 4)):
        metrics = ConsumerMetrics(topic)
        metrics.records = rows
        metrics.rows[table] = rows
        collector.add(metrics)
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry).decode()


def test_a_metric_family_of_several_topics_appears_once() -> None:
    text = _two_consumers()
    samples = check_scrape(text)
    assert samples["pharos_consumer_records_total"] == 3
    assert samples["pharos_consumer_rows_total"] == 2
    assert 'pharos_consumer_rows_total{table="shared"} 5.0' in text.splitlines()


@pytest.mark.parametrize(
    "lines",
    [
        ["# HELP a A", "# TYPE a counter", 'a{t="1"} 1', "# HELP a A", "# TYPE a counter", 'a{t="2"} 1'],
        ["# HELP a A", "# TYPE a counter", "a 1", "# TYPE a counter"],
        ["# HELP a A", "# TYPE a nothing", "a 1"],
        ["# HELP a A", "# TYPE a counter", "a one"],
    ],
)
def test_an_invalid_scrape_is_refused(lines: list[str]) -> None:
    text = "\n".join([*lines, ""])
    with pytest.raises((AssertionError, ValueError)):
        read_scrape(text)
    with skip_if_missing(), pytest.raises(AssertionError):
        parse_with_expfmt(text)
