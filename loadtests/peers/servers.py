"""The servers under comparison, each in a process of its own, on the same brokers."""

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.child_process import ChildFailed, stop_process
from loadtests.bench.edge import fresh_edge, production
from loadtests.peers.build import build_collector, build_go, build_rust
from pipeline_contracts import topics
from pipeline_contracts.credentials import CredentialKind, make_credential
from tests.support.engines import free_port

_CONFIG = Path(__file__).with_name("collector") / "config.yaml"
_START_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """The brokers, and the Redis that only Pharos needs."""

    bootstrap: str
    redis_url: str


@dataclass(frozen=True, slots=True)
class Server:
    """A running server, and a key that it accepts."""

    pid: int
    port: int
    key: str


Running = Callable[[Cluster], AbstractAsyncContextManager[Server]]


@asynccontextmanager
async def running_pharos(cluster: Cluster) -> AsyncIterator[Server]:
    """Run an edge as `pharos edge` does, with keys and limits in Redis."""
    async with fresh_edge(production(cluster.bootstrap, cluster.redis_url)) as edge:
        yield Server(edge.pid, edge.port, edge.ingest_key)


@asynccontextmanager
async def running_go(cluster: Cluster) -> AsyncIterator[Server]:
    """Run the handler in Go."""
    async with _running_handler(build_go(), cluster) as server:
        yield server


@asynccontextmanager
async def running_rust(cluster: Cluster) -> AsyncIterator[Server]:
    """Run the handler in Rust."""
    async with _running_handler(build_rust(), cluster) as server:
        yield server


@asynccontextmanager
async def running_collector(cluster: Cluster) -> AsyncIterator[Server]:
    """Run the OpenTelemetry Collector. It accepts any key."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="pharos-bench-") as folder:
        config = Path(folder) / "config.yaml"
        config.write_text(
            _CONFIG.read_text().format(
                port=port,
                bootstrap=cluster.bootstrap,
                traces=topics.TRACES,
                logs=topics.LOGS,
                metrics=topics.METRICS,
            )
        )
        async with _running([str(build_collector()), "--config", str(config)]) as process:
            await _wait_for_port(process, port)
            yield Server(process.pid, port, make_credential(CredentialKind.INGEST_KEY))


PEERS: Mapping[str, Running] = {
    "Pharos": running_pharos,
    "Collector": running_collector,
    "Go": running_go,
    "Rust": running_rust,
}
"""By name, in the order of the table."""


@asynccontextmanager
async def _running_handler(program: Path, cluster: Cluster) -> AsyncIterator[Server]:
    key = make_credential(CredentialKind.INGEST_KEY)
    settings = {
        "bootstrap": cluster.bootstrap,
        "key": key,
        "ingest_topic": topics.TELEMETRY,
        "traces_topic": topics.TRACES,
        "logs_topic": topics.LOGS,
        "metrics_topic": topics.METRICS,
    }
    async with _running([str(program), json.dumps(settings)]) as process:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), _START_SECONDS)
        if not line:
            raise ChildFailed(f"{program.name} ended with {await process.wait()}; see its errors above.")
        yield Server(process.pid, json.loads(line)["port"], key)


@asynccontextmanager
async def _running(command: Sequence[str]) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *command,
        # Its end of file tells the handlers that the benchmark has ended.
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        # Ctrl-C goes only to the benchmark, which then stops its processes.
        start_new_session=True,
    )
    try:
        yield process
    finally:
        await stop_process(process)


async def _wait_for_port(process: asyncio.subprocess.Process, port: int) -> None:
    async with asyncio.timeout(_START_SECONDS):
        while True:
            if process.returncode is not None:
                raise ChildFailed(f"the Collector ended with {process.returncode}; see its errors above.")
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.1)
