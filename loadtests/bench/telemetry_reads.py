"""Measures the latency of each read of telemetry over the API, for an environment that has telemetry of 30
days."""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from urllib.parse import quote

from loadtests.bench.child_process import running_child
from loadtests.bench.figures import Figure, percentile
from loadtests.bench.measured_load import failure_figure
from loadtests.bench.platform_process import Platform, running_platform
from loadtests.bench.process_usage import cpu_seconds, peak_mb
from loadtests.bench.progress import Progress
from loadtests.bench.run_length import RunLength
from loadtests.bench.telemetry_rows import STATEMENTS

_PART = "telemetry reads"
_P95_TARGET_MS = 300.0


@dataclass(frozen=True, slots=True)
class _Read:
    """One kind of read, and its path below the environment's path."""

    name: str
    path: str


async def measure_telemetry_reads(progress: Progress, length: RunLength) -> list[Figure]:
    """Measure the p50 and the p95 of each read, one read after the other, and the CPU time of the whole
    process."""
    with tempfile.TemporaryDirectory(prefix="pharos-bench-") as name:
        folder = Path(name)
        async with running_platform(folder):
            pass
        environment = json.loads((folder / "credentials.json").read_text())["environment_id"]
        arguments = {
            "folder": str(folder / "clickhouse"),
            "environment": environment,
            "events": length.telemetry_events,
        }
        samples = await fill_telemetry(progress, arguments)
        # Delete the file, because the next start writes it again with its own address.
        (folder / "credentials.json").unlink()
        filled_at = datetime.now(UTC)
        async with running_platform(folder) as platform:
            figures = []
            reads = _make_reads(samples, filled_at)
            for read in reads:
                figures += await _measure(progress, length, platform, environment, read)
            figures.append(Figure(_PART, "memory, peak", peak_mb(platform.pid), "MB"))
            return figures


async def fill_telemetry(progress: Progress, arguments: dict[str, object]) -> dict[str, str]:
    """Fill the column store. Return the IDs of a trace and of a group of exceptions to read."""
    async with running_child("telemetry_rows", arguments) as child:
        with progress.step(f"{arguments['events']:,} events", STATEMENTS) as report_progress:
            for done in range(STATEMENTS):
                await child.read()
                report_progress(done + 1)
        with progress.step("merges", None):
            samples: dict[str, str] = await child.read()
    return samples


def _make_reads(samples: dict[str, str], filled_at: datetime) -> Sequence[_Read]:
    to = quote(filled_at.isoformat())

    def last(days: str) -> str:
        # The rows end at the time when filling began. A range of one hour from the current time would be
        # empty.
        hours = {"1h": 1, "24h": 24, "30d": 720}[days]
        begin = datetime.fromtimestamp(filled_at.timestamp() - 3600 * hours - 3600, UTC)
        return f"from={quote(begin.isoformat())}&to={to}"

    ranges = ("1h", "24h", "30d")
    return [
        *(_Read(f"events, {each}", f"events?{last(each)}") for each in ranges),
        _Read("events, filters that match few, 30d", f"events?route=%2Fr%2F7&severity=error&{last('30d')}"),
        _Read("events, no match, 30d", f"events?name=nothing&{last('30d')}"),
        *(_Read(f"logs, {each}", f"logs?{last(each)}") for each in ranges),
        _Read("logs, two words, 30d", f"logs?search=payment+declined&{last('30d')}"),
        _Read("logs, no match, 30d", f"logs?search=nothing&{last('30d')}"),
        *(_Read(f"services, {each}", f"services?{last(each)}") for each in ranges),
        *(_Read(f"traces, {each}", f"traces?{last(each)}") for each in ranges),
        _Read("traces, slow ones, 24h", f"traces?min_duration_ms=2000&{last('24h')}"),
        _Read("traces, errors of a service, 30d", f"traces?only_errors=true&service=api-3&{last('30d')}"),
        _Read("traces/{trace}", f"traces/{samples['trace']}"),
        *(_Read(f"exceptions, {each}", f"exceptions?{last(each)}") for each in ranges),
        _Read("exceptions, open, 30d", f"exceptions?status=open&{last('30d')}"),
        _Read("exceptions/{group}, 30d", f"exceptions/{samples['group']}?{last('30d')}"),
        _Read("exceptions/{group}/events, 30d", f"exceptions/{samples['group']}/events?{last('30d')}"),
        *(_Read(f"metrics, {each}", f"metrics?{last(each)}") for each in ranges),
        *(
            _Read(f"metrics/{{name}}/series, rate, {each}", f"metrics/metric.7/series?{last(each)}")
            for each in ranges
        ),
        _Read(
            "metrics/{name}/series, rate by service, 24h",
            f"metrics/metric.7/series?group_by=service&{last('24h')}",
        ),
    ]


async def _measure(
    progress: Progress, length: RunLength, platform: Platform, environment: str, read: _Read
) -> list[Figure]:
    headers = {"Authorization": f"Bearer {platform.api_token}"}
    url = f"/api/v1/environments/{environment}/{read.path}"
    seconds: list[float] = []
    used = 0.0
    failures: dict[str, int] = {}
    with progress.step(read.name, length.telemetry_reads) as report_progress:
        # The first request is a warm-up and is not measured.
        for number in range(length.telemetry_reads + 1):
            cpu, begun = cpu_seconds(platform.pid), perf_counter()
            async with platform.http.get(url, headers=headers) as response:
                body = await response.read()
            if response.status != 200:
                what = f"{response.status} {body[:60]!r}"
                failures[what] = failures.get(what, 0) + 1
            elif number:
                seconds.append(perf_counter() - begun)
                used += cpu_seconds(platform.pid) - cpu
            report_progress(number)
    part = f"GET {read.name}"
    return [
        Figure(part, "request, p50", 1000 * percentile(seconds, 0.5), "ms"),
        Figure(part, "request, p95", 1000 * percentile(seconds, 0.95), "ms", target=_P95_TARGET_MS),
        Figure(part, "CPU a request", 1000 * used / max(1, len(seconds)), "ms"),
        failure_figure(part, failures),
    ]
