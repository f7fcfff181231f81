"""Runs `pharos up` as a process of its own, on a data folder of its own."""

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from consumers.transforms.telemetry_topic import EVENTS
from loadtests.bench.child_process import ChildFailed, stop_process
from tests.support.engines import free_port

_PHAROS = Path(sys.executable).with_name("pharos")
_START_SECONDS = 60.0
_STORED_EVENTS = f'pharos_consumer_rows_total{{table="{EVENTS}"}}'


@dataclass(frozen=True, slots=True)
class Platform:
    """A running platform, its address and its keys."""

    pid: int
    port: int
    metrics_port: int
    folder: Path
    ingest_key: str
    api_token: str
    seconds_to_ready: float
    """Seconds from the start of the process to the first 200 of /health/ready."""
    http: aiohttp.ClientSession
    """An HTTP session that sends the ingest key. Paths are relative to the root of the platform."""

    async def stored_events(self) -> float:
        """Return how many events the consumer has inserted so far, as its counter says."""
        async with self.http.get(f"http://127.0.0.1:{self.metrics_port}/metrics") as response:
            lines = (await response.text()).splitlines()
        found = (line for line in lines if line.startswith(_STORED_EVENTS))
        return sum(float(line.rsplit(" ", 1)[1]) for line in found)

    async def query(self, sql: str) -> dict[str, Any]:
        """Return the only row of the result of `pharos query`. Raises `ChildFailed` if the command
        fails."""
        process = await asyncio.create_subprocess_exec(
            _PHAROS, "query", "--json", "--data", self.folder, sql, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
        if process.returncode != 0:
            raise ChildFailed(f"`pharos query` ended with {process.returncode}; see its errors above.")
        row: dict[str, Any] = json.loads(output)
        return row


@asynccontextmanager
async def running_platform(data: Path | None = None) -> AsyncIterator[Platform]:
    """Run a platform within the context. Its account has no rate limit. `data`: its data folder; None:
    a temporary one."""
    with tempfile.TemporaryDirectory(prefix="pharos-bench-") as scratch:
        folder = data or Path(scratch) / "data"
        output = Path(scratch) / "output.log"
        begun = time.perf_counter()
        metrics_port = free_port()
        process = await _start(folder, output, metrics_port)
        try:
            credentials = await _wait_for_credentials(process, folder, output)
            root = credentials["base_url"].removesuffix("/api")
            headers = {"Authorization": f"Bearer {credentials['ingest_key']}"}
            async with aiohttp.ClientSession(root, headers=headers) as http:
                await _wait_until_ready(process, http, output)
                yield Platform(
                    process.pid,
                    int(root.rsplit(":", 1)[1]),
                    metrics_port,
                    folder,
                    credentials["ingest_key"],
                    credentials["api_token"],
                    time.perf_counter() - begun,
                    http,
                )
        except aiohttp.ClientError as error:
            log_text = await asyncio.to_thread(output.read_text)
            raise ChildFailed(
                f"The platform returned an unexpected response: {error}\n{log_text[-4000:]}"
            ) from error
        finally:
            await stop_process(process)


async def _start(folder: Path, output: Path, metrics_port: int) -> asyncio.subprocess.Process:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PHAROS_")}
    environment |= {"PHAROS_INGEST_RATE": "1e9", "PHAROS_INGEST_BURST": "1000000000"}
    environment |= {"PHAROS_ACCOUNT_REQUEST_RATE": "1e9", "PHAROS_ACCOUNT_REQUEST_BURST": "1000000000"}
    environment["PHAROS_METRICS_LISTEN"] = f"127.0.0.1:{metrics_port}"
    with output.open("wb") as file:
        return await asyncio.create_subprocess_exec(
            _PHAROS,
            "up",
            "--data",
            folder,
            "--port",
            "0",
            stdout=file,
            stderr=file,
            env=environment,
            start_new_session=True,
        )


async def _wait_for_credentials(
    process: asyncio.subprocess.Process, folder: Path, output: Path
) -> dict[str, Any]:
    path = folder / "credentials.json"
    async with asyncio.timeout(_START_SECONDS):
        while not path.exists():
            await _pause_while_running(process, output)
    credentials: dict[str, Any] = json.loads(path.read_text())
    return credentials


async def _wait_until_ready(
    process: asyncio.subprocess.Process, http: aiohttp.ClientSession, output: Path
) -> None:
    async with asyncio.timeout(_START_SECONDS):
        while True:
            try:
                async with http.get("/health/ready") as response:
                    if response.status == 200:
                        return
            except aiohttp.ClientConnectionError:
                # The credentials are written before the port is opened.
                pass
            await _pause_while_running(process, output)


async def _pause_while_running(process: asyncio.subprocess.Process, output: Path) -> None:
    if process.returncode is not None:
        log_text = await asyncio.to_thread(output.read_text)
        raise ChildFailed(f"`pharos up` ended with {process.returncode}: {log_text[-2000:]}")
    await asyncio.sleep(0.02)
