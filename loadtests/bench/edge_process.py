"""A child process that runs only an edge, wired like `pharos up` or `pharos edge` and without consumers."""

import asyncio
import gc
import json
import secrets
import signal
import socket
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import uvloop
from aiohttp import web

from ingest_edge.app import edge_runner
from ingest_edge.assemble import open_edge
from ingest_edge.health import Readiness
from ingest_edge.metrics import new_registry
from loadtests.bench.child_process import send_result
from loadtests.bench.collect_payloads import ORIGIN
from pipeline_contracts import topics
from pipeline_contracts.credentials import CredentialKind, digest_credential, make_credential
from pipeline_contracts.identifiers import make_identifier
from pipeline_contracts.rate_limits import RateLimit
from pipeline_contracts.settings import Settings
from storage_backends.event_log.interface import EventLog
from storage_backends.event_log.kafka import open_kafka_log
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.sqlite import open_sqlite_log
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from storage_backends.key_directory.interface import KeyDirectory, KeyEntry, SiteEntry
from storage_backends.key_directory.redis import open_redis_key_directory
from storage_backends.rate_counter.in_process import InProcessRateCounter
from storage_backends.rate_counter.interface import RateCounter
from storage_backends.rate_counter.redis import open_redis_rate_counter
from storage_backends.salts.in_file import FileSalts
from wiring.embedded.allocator import keep_freed_memory
from wiring.processes.edge import SLICE_SECONDS

# Nothing consumes this log, so it must not become full during a measurement.
_LOG_BYTES = 2**40
# Requests are counted for this limit like for any other, but never reach it.
_LIMIT = RateLimit(1e9, 10**9)
_COUNTRIES = Path(".engines/countries.mmdb")
HEARTBEAT = 1
"""The ID of the first monitor; it belongs to the first monitor key."""
KEYS_FILE = "keys.json"
"""The name of a JSON file in the folder. It has two lists: ingest keys, and monitor keys."""


async def _open_log(exits: AsyncExitStack, folder: Path, bootstrap: str | None) -> EventLog:
    if bootstrap is None:
        embedded = await open_sqlite_log(folder / "event-log.sqlite", _LOG_BYTES)
        exits.push_async_callback(embedded.close)
        return embedded
    settings = Settings()
    log = await open_kafka_log(
        KafkaConnection(bootstrap),
        topics.ALL_TOPICS,
        buffer_bytes=settings.kafka_buffer_bytes,
        acknowledge_seconds=settings.kafka_timeout_seconds,
    )
    exits.push_async_callback(log.close)
    while log.stalled_reason() is not None:  # noqa: ASYNC110 (there is no event to await)
        await asyncio.sleep(0.02)
    return log


async def _open_shared(
    exits: AsyncExitStack, redis_url: str | None, keys: list[KeyEntry]
) -> tuple[KeyDirectory, RateCounter, float]:
    """Open the key directory and the rate counter. Return both, and the length of a lease in seconds."""
    directory: KeyDirectory
    counter: RateCounter
    if redis_url is None:
        directory, counter, slice_seconds = InProcessKeyDirectory(), InProcessRateCounter(), 0.0
    else:
        directory = await open_redis_key_directory(redis_url)
        counter = await open_redis_rate_counter(redis_url)
        slice_seconds = SLICE_SECONDS
    exits.push_async_callback(directory.close)
    exits.push_async_callback(counter.close)

    async def read() -> list[KeyEntry]:
        return keys

    await directory.publish_all(read)
    return directory, counter, slice_seconds


def _entry(key: str, kind: CredentialKind, account: int = 0, monitor: int = HEARTBEAT) -> KeyEntry:
    return KeyEntry(
        digest_credential(key),
        kind,
        f"acc_{account:026d}",
        "prj_01jz0000000000000000000000",
        "env_01jz0000000000000000000000",
        _LIMIT,
        monitor=f"heartbeat/{monitor}" if kind is CredentialKind.MONITOR_KEY else None,
        site=SiteEntry(1, (ORIGIN,)) if kind is CredentialKind.SITE else None,
    )


def _settings(accelerator: str) -> Settings:
    """Return the settings of an edge behind a proxy on the same machine. If `make country-database` was run, they
    include the country database. `accelerator`: the value of the setting, or a folder that has the module."""
    database = str(_COUNTRIES) if _COUNTRIES.exists() else None
    if accelerator not in ("auto", "off"):
        sys.path.insert(0, accelerator)
        accelerator = "auto"
    return Settings(
        otlp_protobuf=True,
        trusted_proxies="127.0.0.1",
        country_database=database,
        accelerator=accelerator,
    )


def _make_keys(keys: int, accounts: int, monitors: int) -> tuple[list[str], list[str], list[KeyEntry]]:
    """Return ingest keys that are spread over the accounts, a key for each of the heartbeats 1, 2 and so on, and the
    directory entries of all keys."""
    ingest = [make_credential(CredentialKind.INGEST_KEY) for _ in range(keys)]
    monitor = [make_credential(CredentialKind.MONITOR_KEY) for _ in range(monitors)]
    entries = [
        *(_entry(key, CredentialKind.INGEST_KEY, number % accounts) for number, key in enumerate(ingest)),
        *(_entry(key, CredentialKind.MONITOR_KEY, 0, n) for n, key in enumerate(monitor, HEARTBEAT)),
    ]
    return ingest, monitor, entries


async def _serve(
    folder: Path,
    bootstrap: str | None,
    redis_url: str | None,
    accelerator: str,
    keys: int,
    accounts: int,
    monitors: int,
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    # The benchmark never writes to this standard input. It becomes readable when the benchmark ends for any reason.
    loop.add_reader(sys.stdin, stop.set)
    ingest_keys, monitor_keys, entries = _make_keys(keys, accounts, monitors)
    tracker_id = make_identifier("sit", 0)
    entries.append(_entry(tracker_id, CredentialKind.SITE))
    # The keys are too long for one line of the report.
    (folder / KEYS_FILE).write_text(json.dumps([ingest_keys, monitor_keys]))
    async with AsyncExitStack() as exits:
        log = await _open_log(exits, folder, bootstrap)
        directory, counter, slice_seconds = await _open_shared(exits, redis_url, entries)
        edge = await exits.enter_async_context(
            open_edge(
                _settings(accelerator),
                directory=directory,
                counter=counter,
                slice_seconds=slice_seconds,
                log=log,
                salts=FileSalts(folder / "salts.json"),
                receipt_key=secrets.token_bytes(32),
                readiness=Readiness({"event_log": log.stalled_reason}),
                registry=new_registry(),
            )
        )
        runner = edge_runner(edge)
        await runner.setup()
        exits.push_async_callback(runner.cleanup)
        server = exits.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        await web.SockSite(runner, server, backlog=1024).start()
        gc.collect()
        gc.freeze()
        send_result(
            {
                "port": server.getsockname()[1],
                "tracker_id": tracker_id,
            }
        )
        await stop.wait()


def main() -> None:
    """Serve until SIGTERM. The argument is a JSON object: folder, bootstrap and redis_url (or null), accelerator, and
    the numbers of ingest keys, of their accounts, and of heartbeats."""
    arguments: dict[str, Any] = json.loads(sys.argv[1])
    keep_freed_memory()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(
            _serve(
                Path(arguments["folder"]),
                arguments["bootstrap"],
                arguments["redis_url"],
                arguments["accelerator"],
                arguments["keys"],
                arguments["accounts"],
                arguments["monitors"],
            )
        )


if __name__ == "__main__":
    main()
