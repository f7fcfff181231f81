"""SIGTERM under load: each request gets a response or is refused, and each batch with response 202 is stored."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

from tests.support.platform_process import PlatformProcess, platform_process


def _send(platform: PlatformProcess, sender: int, accepted: list[str]) -> None:
    for number in range(5000):
        name = f"{sender}-{number}"
        try:
            answer = platform.ingest({"batch_id": name, "events": [{"type": "log", "id": name}] * 3})
        except OSError:
            # The port is closed, or the connection ended before a response, so no batch was acknowledged.
            return
        if answer.status == 202:
            accepted.append(name)
        else:
            # On a loaded machine a body may arrive too slowly.
            assert answer.status in (408, 429, 503)


def test_events_accepted_before_a_stop_are_stored(tmp_path: Path) -> None:
    # Chunks so small that records are left at the stop, and a stop with enough time.
    with platform_process(
        tmp_path / "data", env={"PHAROS_CHUNK_ROWS": "15", "PHAROS_DRAIN_SECONDS": "100"}
    ) as platform:
        accepted: list[str] = []
        senders = [threading.Thread(target=_send, args=(platform, n, accepted)) for n in range(4)]
        for sender in senders:
            sender.start()
        while len(accepted) < 200:
            senders[0].join(0.05)
        assert platform.stop() == 0
        for sender in senders:
            sender.join()

        with closing(sqlite3.connect(tmp_path / "data" / "event-log.sqlite")) as log:
            left = log.execute("SELECT sum(past_last - first) FROM frames").fetchone()
        assert left == (None,), "the stop has left accepted records in the log"
        platform.start()
        rows = platform.query("SELECT batch_id, count() AS n FROM pharos.telemetry_events GROUP BY batch_id")
        stored = {row["batch_id"]: row["n"] for row in rows}
        assert {name: stored.get(name) for name in accepted} == dict.fromkeys(accepted, 3)
        assert set(stored.values()) == {3}
