"""Measures what a read costs the control plane: one that queries ClickHouse, and one that queries the database."""

from collections.abc import Sequence

from loadtests.bench.figures import Figure
from loadtests.bench.load import MakeRequest
from loadtests.bench.measured_load import measure_load
from loadtests.bench.payloads import make_bodies, number_body
from loadtests.bench.platform_process import Platform
from loadtests.bench.progress import Progress
from loadtests.bench.run_length import RunLength

_CONNECTIONS = 8
_RECEIPTS = 50
# The batches whose receipts are read have numbers from here on. No other batch has such a number.
_FIRST = 6 * 10**9


async def measure_control(progress: Progress, length: RunLength, platform: Platform) -> list[Figure]:
    """Measure the CPU time of the whole process per request. The process does nothing else."""
    urls = await _make_receipts(platform)
    return [
        *await _measure(progress, length, platform, "receipt", urls, platform.ingest_key),
        *await _measure(progress, length, platform, "account", ["/api/v1/account"], platform.api_token),
    ]


async def _make_receipts(platform: Platform) -> list[str]:
    urls = []
    (body,) = make_bodies(1, 10)
    for number in range(_FIRST, _FIRST + _RECEIPTS):
        async with platform.http.post(
            "/api/v1/ingest", data=number_body(body, number), headers={"Content-Type": "application/json"}
        ) as response:
            response.raise_for_status()
            urls.append((await response.json())["data"]["url"])
    return urls


async def _measure(
    progress: Progress, length: RunLength, platform: Platform, name: str, urls: Sequence[str], credential: str
) -> list[Figure]:
    part = f"control, GET {name}"
    measured = await measure_load(
        progress,
        part,
        platform.pid,
        platform.port,
        get_requests(urls, credential),
        connections=_CONNECTIONS,
        expected=200,
        warm_up=length.warm_up,
        seconds=length.informative_seconds,
    )
    return [
        Figure(part, "requests", measured.per_second, "/s"),
        Figure(part, "CPU a request", measured.cpu_us, "µs"),
        *measured.latency(part),
    ]


def get_requests(urls: Sequence[str], credential: str) -> MakeRequest:
    """Return a function that makes requests for these URLs in turn."""
    requests = [
        f"GET {url} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {credential}\r\nAccept: */*\r\n\r\n".encode()
        for url in urls
    ]
    return lambda number: requests[number % len(requests)]
