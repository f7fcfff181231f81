"""SIGTERM under load: each request is answered or refused, and what was answered 202 is stored."""

import threading
from pathlib import Path

from tests.support.platform_process import PlatformProcess, platform_process


def _send(platform: PlatformProcess, sender: int, accepted: list[str]) -> None:
    for number in range(5000):
        name = f"{sender}-{number}"
        try:
            answer = platform.ingest({"batch_id": name, "events": [{"type": "log", "id": name}] * 3})
        except OSError:
            # The port is closed, or the connection was cut before an answer: no promise was made.
            return
        if answer.status == 202:
            accepted.append(name)
        else:
            assert answer.status in (429, 503)


def test_what_was_accepted_before_a_stop_is_stored(tmp_path: Path) -> None:
    # A stop that is not pressed for time.
    with platform_process(tmp_path / "data", env={"PHAROS_DRAIN_SECONDS": "100"}) as platform:
        accepted: list[str] = []
        senders = [threading.Thread(target=_send, args=(platform, n, accepted)) for n in range(4)]
        for sender in senders:
            sender.start()
        while len(accepted) < 200:
            senders[0].join(0.05)
        assert platform.stop() == 0
        for sender in senders:
            sender.join()

        platform.start()
        assert platform.metric("pharos_log_bytes") == 0, "the stop has left accepted records in the log"
        rows = platform.query("SELECT batch_id, count() AS n FROM pharos.telemetry_events GROUP BY batch_id")
        stored = {row["batch_id"]: row["n"] for row in rows}
        assert {name: stored.get(name) for name in accepted} == dict.fromkeys(accepted, 3)
        assert set(stored.values()) == {3}
