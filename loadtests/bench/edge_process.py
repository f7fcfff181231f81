"""An edge alone in its process, wired as `pharos up` wires it, with nothing behind the log."""

import asyncio
import gc
import json
import secrets
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import uvloop
from aiohttp import web

from ingest_edge.app import Edge, edge_runner
from ingest_edge.assemble import assemble_edge
from ingest_edge.health import Readiness
from ingest_edge.metrics import new_registry
from loadtests.bench.child_process import say
from pipeline_contracts import topics
from pipeline_contracts.credentials import CredentialKind, digest_credential, make_credential
from pipeline_contracts.rate_limits import RateLimit
from pipeline_contracts.settings import Settings
from storage_backends.event_log.interface import EventLog
from storage_backends.event_log.kafka import open_kafka_log
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.sqlite import open_sqlite_log
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from storage_backends.key_directory.interface import KeyEntry
from storage_backends.rate_counter.in_process import InProcessRateCounter

# Nothing takes records out of this log: it must not fill within a measurement.
_LOG_BYTES = 2**40
# Counted like any other, never reached.
_LIMIT = RateLimit(1e9, 10**9)


async def _open_log(folder: Path, bootstrap: str | None) -> EventLog:
    if bootstrap is None:
        return await open_sqlite_log(folder / "event-log.sqlite", _LOG_BYTES)
    settings = Settings()
    log = await open_kafka_log(
        KafkaConnection(bootstrap),
        topics.ALL_TOPICS,
        buffer_bytes=settings.kafka_buffer_bytes,
        acknowledge_seconds=settings.kafka_timeout_seconds,
    )
    while log.stalled_reason() is not None:  # noqa: ASYNC110 (nothing tells)
        await asyncio.sleep(0.02)
    return log


async def _serve(folder: Path, bootstrap: str | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    # Nothing is ever sent there: it becomes readable when the benchmark ends, however that was.
    loop.add_reader(sys.stdin, stop.set)
    log = await _open_log(folder, bootstrap)
    directory = InProcessKeyDirectory()
    key = make_credential(CredentialKind.INGEST_KEY)
    await directory.publish(
        KeyEntry(
            digest_credential(key),
            CredentialKind.INGEST_KEY,
            "acc_01jz0000000000000000000000",
            "prj_01jz0000000000000000000000",
            "env_01jz0000000000000000000000",
            _LIMIT,
        )
    )
    runner = edge_runner(_build(directory, log))
    await runner.setup()
    try:
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            await web.SockSite(runner, server, backlog=1024).start()
            gc.collect()
            gc.freeze()
            say({"port": server.getsockname()[1], "ingest_key": key})
            await stop.wait()
    finally:
        await runner.cleanup()
        await log.close()


def _build(directory: InProcessKeyDirectory, log: EventLog) -> Edge:
    return assemble_edge(
        Settings(),
        directory=directory,
        counter=InProcessRateCounter(),
        slice_seconds=0.0,
        log=log,
        receipt_key=secrets.token_bytes(32),
        readiness=Readiness({"event_log": log.stalled_reason}),
        registry=new_registry(),
    )


def main() -> None:
    """Serve until SIGTERM; the one argument names the folder of the log."""
    arguments: dict[str, Any] = json.loads(sys.argv[1])
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(Path(arguments["folder"]), arguments["bootstrap"]))


if __name__ == "__main__":
    main()
