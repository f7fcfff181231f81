"""Measures page views: the cost for the edge per request and per view, for the consumer per view, and
ClickHouse's part of it."""

from loadtests.bench.collect_payloads import VIEWS
from loadtests.bench.consumer import run_consumer, us_a_row
from loadtests.bench.edge import EMBEDDED, fresh_edge, measure_requests
from loadtests.bench.figures import Figure
from loadtests.bench.ingest_requests import collect_requests
from loadtests.bench.process_usage import peak_mb
from loadtests.bench.progress import Progress
from loadtests.bench.run_length import RunLength

_CONNECTIONS = 64
_REQUEST_TARGET_US = 95.0
_VIEW_TARGET_US = 12.0
_CONSUMER_TARGET_US = 12.0


async def measure_collect_edge(progress: Progress, length: RunLength) -> list[Figure]:
    """Measure requests that have one page view, and requests that have the maximum number. They include
    User-Agent, country, origin and hash."""
    figures = []
    for views in (1, VIEWS):
        part = f"edge, collect, {views} page view{'s' if views > 1 else ''} a request"
        async with fresh_edge(EMBEDDED) as edge:
            requests = collect_requests(edge.tracker_id, views)
            measured = await measure_requests(progress, part, edge, requests, _CONNECTIONS, length)
            peak = peak_mb(edge.pid)
        name, target = ("request", _REQUEST_TARGET_US) if views == 1 else ("page view", _VIEW_TARGET_US)
        figures += [
            Figure(part, "page views", measured.per_second * views, "/s"),
            Figure(part, f"CPU a {name}", measured.cpu_us / views, "µs", target=target),
            *measured.latency(part),
            Figure(part, "peak memory", peak, "MB"),
        ]
    return figures


async def measure_collect_consumer(progress: Progress, length: RunLength) -> list[Figure]:
    """Measure the consumer, from the log to the insert, and ClickHouse's part, which includes the search for
    duplicates."""
    part = "consumer of page views"
    report = await run_consumer(progress, part, length, "nothing", transform="pageviews")
    target = _CONSUMER_TARGET_US
    figures = [
        Figure(part, "page views", report["rows"] / report["seconds"], "/s"),
        Figure(part, "CPU a page view", us_a_row(report["cpu_seconds"], report), "µs", target=target),
        Figure(part, "peak memory", report["peak_mb"], "MB"),
    ]
    part = "consumer of page views and ClickHouse"
    report = await run_consumer(progress, part, length, "clickhouse", transform="pageviews")
    engine = us_a_row(report["cpu_seconds"] - report["consumer_cpu_seconds"], report)
    return [
        *figures,
        Figure(part, "page views", report["rows"] / report["seconds"], "/s"),
        Figure(part, "CPU of ClickHouse a row", engine, "µs"),
        Figure(part, "peak memory", report["peak_mb"], "MB"),
    ]
