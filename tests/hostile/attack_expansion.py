"""Send small OTLP bodies with large rows to a running Pharos, during another client's ingest, and report the costs.

`python -m tests.hostile.attack_expansion [--each N] [--limit BYTES]` starts a `pharos up` of its own. `--limit` sets
`PHAROS_MAX_EXPANDED_BYTES`: with a large one the edge accepts the bodies, as it would without the limit.
"""

import argparse
import gzip
import http.client
import json
import tempfile
import threading
import time
import urllib.request
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.hostile.expanding_bodies import BODIES, ExpandingBody
from tests.support.platform_process import PlatformProcess, platform_process

_ROWS = " UNION ALL ".join(
    f"SELECT count() AS rows FROM pharos.{table}"
    for table in ("otel_logs", "otel_traces", "otel_metrics_sum", "otel_metrics_histogram")
)
_SENDERS = 4


@dataclass(slots=True)
class Cost:
    """The costs of an attack."""

    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Number of responses by body and status."""
    rows: int = 0
    dead_letters: int = 0
    idle_mb: int = 0
    peak_mb: int = 0
    neighbour: list[float] = field(default_factory=list)
    """Seconds of each ingest request of the other client, slowest last; all returned 202."""
    neighbour_stored: bool = False
    seconds: float = 0.0
    """Seconds until all requests were consumed."""


def attack(
    folder: Path, bodies: Mapping[str, ExpandingBody], *, each: int = 1, limit: int | None = None
) -> Cost:
    """Send every body `each` times over four connections, and wait until the accepted ones are consumed."""
    variables = {
        "PHAROS_OTLP_PROTOBUF": "1",
        "PHAROS_INGEST_RATE": "1000000",
        "PHAROS_INGEST_BURST": "1000000",
        **({} if limit is None else {"PHAROS_MAX_EXPANDED_BYTES": str(limit)}),
    }
    cost = Cost()
    with platform_process(folder / "data", env=variables) as platform:
        cost.idle_mb = _memory_mb(platform, "VmRSS")
        ended = threading.Event()
        neighbour = threading.Thread(target=_ingest, args=(platform, cost, ended))
        begun = time.monotonic()
        neighbour.start()
        try:
            _send_all(platform, [(n, b) for n, b in bodies.items() for _ in range(each)], cost)
            taken = sum(times for (_, status), times in cost.answers.items() if status == 200)
            _wait_until(lambda: _consumed(platform, "traces", "logs", "metrics") == taken)
        finally:
            ended.set()
            neighbour.join()
        _wait_until(lambda: _consumed(platform, "telemetry") == len(cost.neighbour))
        cost.seconds = time.monotonic() - begun
        cost.peak_mb = _memory_mb(platform, "VmHWM")
        cost.rows = sum(int(row["rows"]) for row in platform.query(_ROWS))
        cost.dead_letters = int(platform.metric("pharos_consumer_dead_letters_total"))
        (stored,) = platform.query(
            "SELECT count() AS events, uniqExact(id) AS ids FROM pharos.telemetry_events"
        )
        cost.neighbour_stored = int(stored["events"]) == int(stored["ids"]) == len(cost.neighbour)
    cost.neighbour.sort()
    return cost


def _send_all(platform: PlatformProcess, bodies: Sequence[tuple[str, ExpandingBody]], cost: Cost) -> None:
    requests = [
        (f"{name}, {coding}", body.signal, coding, make)
        for name, body in bodies
        for coding, make in (("json", body.json), ("x-protobuf", body.protobuf))
        if make is not None
    ]
    lock = threading.Lock()

    def send() -> None:
        while True:
            with lock:
                if not requests:
                    return
                name, signal, coding, make = requests.pop()
            status = _post(platform, f"/otlp/v1/{signal}", f"application/{coding}", gzip.compress(make(1.0)))
            with lock:
                cost.answers[name, status] += 1

    senders = [threading.Thread(target=send) for _ in range(_SENDERS)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()


def _ingest(platform: PlatformProcess, cost: Cost, ended: threading.Event) -> None:
    """Send small batches, one after the other."""
    while not ended.wait(0.02):
        batch = {"batch_id": uuid.uuid4().hex, "events": [{"type": "log", "id": uuid.uuid4().hex}]}
        begun = time.monotonic()
        status = _post(platform, "/ingest", "application/json", gzip.compress(json.dumps(batch).encode()))
        assert status == 202, status
        cost.neighbour.append(time.monotonic() - begun)


def _post(platform: PlatformProcess, path: str, content_type: str, body: bytes) -> int:
    headers = {
        "Authorization": f"Bearer {platform.credentials['ingest_key']}",
        "Content-Type": content_type,
        "Content-Encoding": "gzip",
    }
    with closing(http.client.HTTPConnection("127.0.0.1", platform.port, timeout=120)) as connection:
        connection.request("POST", f"/api/v1{path}", body, headers)
        response = connection.getresponse()
        response.read()
        return response.status


def _consumed(platform: PlatformProcess, *topics: str) -> int:
    """Return the number of consumed requests. The size of the log would include dead letters."""
    with urllib.request.urlopen(f"http://127.0.0.1:{platform.metrics_port}/metrics", timeout=60) as response:
        lines = response.read().decode().splitlines()
    name = "pharos_consumer_records_total{topic="
    return sum(
        int(float(line.rsplit(" ", 1)[1]))
        for line in lines
        if line.startswith(name) and any(topic in line for topic in topics)
    )


def _wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < deadline, "not consumed within 300 s"
        time.sleep(0.1)


def _memory_mb(platform: PlatformProcess, name: str) -> int:
    lines = Path(f"/proc/{platform.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) // 1024


def _report(cost: Cost) -> dict[str, Any]:
    slowest = cost.neighbour[-1] if cost.neighbour else 0.0
    return {
        "answers": {f"{name}: {status}": times for (name, status), times in sorted(cost.answers.items())},
        "rows stored": cost.rows,
        "dead letters": cost.dead_letters,
        "memory, MB": {"idle": cost.idle_mb, "peak": cost.peak_mb},
        "neighbour's ingest, ms": {
            "requests": len(cost.neighbour),
            "p50": round(1000 * cost.neighbour[len(cost.neighbour) // 2]),
            "slowest": round(1000 * slowest),
            "stored once": cost.neighbour_stored,
        },
        "seconds": round(cost.seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=4, help="how many times each body is sent")
    parser.add_argument("--limit", type=int, help="PHAROS_MAX_EXPANDED_BYTES of the edge")
    parser.add_argument("--only", nargs="*", help="names of bodies")
    given = parser.parse_args()
    bodies = {name: body for name, body in BODIES.items() if not given.only or name in given.only}
    with tempfile.TemporaryDirectory() as folder:
        cost = attack(Path(folder), bodies, each=given.each, limit=given.limit)
    print(json.dumps(_report(cost), indent=2))


if __name__ == "__main__":
    main()
