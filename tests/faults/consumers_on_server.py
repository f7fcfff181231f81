"""Consumer processes on Kafka and one ClickHouse server."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from storage_backends.column_store.clickhouse_server import open_clickhouse_server
from tests.support import fork_server
from tests.support.clickhouse_front import FrontServer


class ConsumersOnServer:
    """Starts consumers of one topic with one column store; `options` are arguments of `killable_consumer`."""

    def __init__(self, bootstrap: str, topic: str, folder: Path, front: FrontServer, *options: str) -> None:
        self._command = [
            *(sys.executable, "-m", "tests.faults.killable_consumer", "--bootstrap", bootstrap),
            *("--topic", topic, "--data", str(folder), "--clickhouse", front.url, *options),
        ]
        self.log = folder / "consumer.log"

    def start(self) -> "subprocess.Popen[bytes]":
        with open(self.log, "ab") as log:
            return fork_server.popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stderr=log,
                cwd=Path(__file__).parents[2],
            )

    def report(self) -> Any:
        with open(self.log, "ab") as log:
            completed = fork_server.run(
                [*self._command, "--report"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=Path(__file__).parents[2],
                timeout=180,
            )
        assert completed.returncode == 0, self.log.read_text()[-3000:]
        return json.loads(completed.stdout)


async def until_stored(front: FrontServer, rows: int) -> None:
    """Wait until the server has this many events."""
    store = await open_clickhouse_server(front.url)
    try:
        async with asyncio.timeout(120):
            while True:
                result = await store.query("SELECT count() FROM pharos.telemetry_events")
                if result.rows[0][0] == rows:
                    return
                await asyncio.sleep(0.1)
    finally:
        await store.close()
