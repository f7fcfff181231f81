"""Measures what each read of the deploy API costs, on a database with 100,000 deployments."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp

from loadtests.bench.control import get_requests
from loadtests.bench.deploy_history import DEPLOYMENTS, History, fill_database
from loadtests.bench.figures import Figure
from loadtests.bench.measured_load import measure_load
from loadtests.bench.platform_process import Platform, running_platform
from loadtests.bench.progress import Progress
from loadtests.bench.run_length import RunLength

# Each connection sends its next request immediately, so the process is at its limit.
_CONNECTIONS = 4
_CPU_TARGET_MS = 4.0
_P99_TARGET_MS = 30.0
_API = "/api/v1"
_DEPLOYMENTS = f"{_API}/deployments"


@dataclass(frozen=True, slots=True)
class _Read:
    """One kind of read. Its URLs are requested in turn."""

    name: str
    token: str
    paths: Sequence[str]


async def measure_deploy_reads(progress: Progress, length: RunLength) -> list[Figure]:
    """Measure the CPU time of the whole process per read, without other load, and the latency for the
    callers."""
    with tempfile.TemporaryDirectory(prefix="pharos-bench-") as folder:
        with progress.step(f"filling a database with {DEPLOYMENTS:,} deployments", None):
            history = await fill_database(f"sqlite+aiosqlite:///{Path(folder) / 'control.sqlite'}")
        async with running_platform(Path(folder)) as platform:
            with progress.step("turning pages", None):
                deep = await _list_pages(platform.http, history.owner_token)
            figures = []
            for read in _make_reads(history, deep):
                figures += await _measure(progress, length, platform, read)
            return figures


def _make_reads(history: History, deep: Sequence[str]) -> list[_Read]:
    owner = history.owner_token
    return [
        _Read("account", owner, [f"{_API}/account"]),
        _Read("me", owner, [f"{_API}/me"]),
        _Read("projects, all 60", owner, [f"{_API}/projects"]),
        _Read("projects?limit=50", owner, [f"{_API}/projects?limit=50"]),
        _Read("projects/{project}", owner, [f"{_API}/projects/{project}" for project in history.projects]),
        _Read("deployments", owner, [_DEPLOYMENTS]),
        _Read("deployments?limit=100", owner, [f"{_DEPLOYMENTS}?limit=100"]),
        _Read("deployments, from the 50,000th on", owner, deep),
        _Read("deployments, a role in one project", history.guest_token, [_DEPLOYMENTS]),
        _Read("deployments, roles in 40 projects", history.member_token, [_DEPLOYMENTS]),
        _Read("deployments/{build}", owner, [f"{_DEPLOYMENTS}/{number}" for number in history.deployments]),
        _Read(
            "deployments/{build}/log, 1,000 lines",
            owner,
            [f"{_DEPLOYMENTS}/{number}/log" for number in history.logged],
        ),
    ]


async def _list_pages(http: aiohttp.ClientSession, token: str) -> list[str]:
    """Return URLs of pages of 50 entries in the middle of the list. They are found by following cursors."""
    headers = {"Authorization": f"Bearer {token}"}
    cursor: str | None = None
    pages = []
    for shown in range(0, DEPLOYMENTS // 2 + 1_000, 100):
        params = {"limit": "100"} if cursor is None else {"limit": "100", "cursor": cursor}
        async with http.get(_DEPLOYMENTS, params=params, headers=headers) as response:
            response.raise_for_status()
            cursor = (await response.json())["next_cursor"]
        if shown >= DEPLOYMENTS // 2:
            pages.append(f"{_DEPLOYMENTS}?cursor={cursor}")
    return pages


async def _measure(progress: Progress, length: RunLength, platform: Platform, read: _Read) -> list[Figure]:
    part = f"GET {read.name}"
    measured = await measure_load(
        progress,
        part,
        platform.pid,
        platform.port,
        get_requests(read.paths, read.token),
        connections=_CONNECTIONS,
        expected=200,
        warm_up=length.warm_up,
        seconds=length.informative_seconds,
    )
    p50, p99, failures = measured.latency(part)
    return [
        Figure(part, "requests", measured.per_second, "/s"),
        Figure(part, "CPU a request", measured.cpu_us / 1000, "ms", target=_CPU_TARGET_MS),
        p50,
        replace(p99, target=_P99_TARGET_MS),
        failures,
    ]
