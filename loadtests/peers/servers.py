"""Runs the servers that are compared, each in a process of its own, on the same brokers."""

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from loadtests.bench.child_process import Child, running_program
from loadtests.bench.edge import fresh_edge, production
from loadtests.peers.build import build_collector, build_go, build_rust
from pipeline_contracts import topics
from pipeline_contracts.credentials import CredentialKind, make_credential
from tests.support.accelerator import build_accelerator
from tests.support.engines import free_port

_CONFIG = Path(__file__).with_name("collector") / "config.yaml"
_START_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """The brokers, and Redis, which only Pharos needs."""

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
    """Run an edge within the context, as `pharos edge` does: keys and limits are in Redis, and the
    accelerator is on."""
    async with _running_edge(cluster, str(build_accelerator().parent)) as server:
        yield server


@asynccontextmanager
async def running_pharos_in_python(cluster: Cluster) -> AsyncIterator[Server]:
    """Run an edge without the accelerator within the context."""
    async with _running_edge(cluster, "off") as server:
        yield server


@asynccontextmanager
async def _running_edge(cluster: Cluster, accelerator: str) -> AsyncIterator[Server]:
    engines = production(cluster.bootstrap, cluster.redis_url)
    async with fresh_edge(replace(engines, accelerator=accelerator)) as edge:
        yield Server(edge.pid, edge.port, edge.ingest_key)


@asynccontextmanager
async def running_go(cluster: Cluster) -> AsyncIterator[Server]:
    """Run the handler in Go within the context."""
    async with _running_handler(build_go(), cluster) as server:
        yield server


@asynccontextmanager
async def running_rust(cluster: Cluster) -> AsyncIterator[Server]:
    """Run the handler in Rust within the context."""
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
        command = [str(build_collector()), "--config", str(config)]
        async with running_program("the Collector", command) as child:
            await _wait_for_port(child, port)
            yield Server(child.pid, port, make_credential(CredentialKind.INGEST_KEY))


PEERS: Mapping[str, Running] = {
    "Pharos": running_pharos,
    "Pharos, Python": running_pharos_in_python,
    "Collector": running_collector,
    "Go": running_go,
    "Rust": running_rust,
}
"""The peers by name, in the order of the table."""


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
    async with running_program(program.name, [str(program), json.dumps(settings)]) as child:
        report = await asyncio.wait_for(child.read(), _START_SECONDS)
        yield Server(child.pid, report["port"], key)


async def _wait_for_port(child: Child, port: int) -> None:
    async with asyncio.timeout(_START_SECONDS):
        while True:
            child.check_running()
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.1)
