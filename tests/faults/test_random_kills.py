"""`kill -9` of the platform and of the sender at random moments while a file is being shipped."""

import json
import random
import subprocess
import time
from pathlib import Path

import pytest

from tests.support import fork_server
from tests.support.platform_process import PHAROS, platform_process

# Compares sent and stored events by ID, in ClickHouse, whose `numbers` generates the sent IDs.
_DIFFERENCE = """
    SELECT
        (SELECT count() FROM pharos.telemetry_events) AS stored,
        (SELECT uniqExact(id) FROM pharos.telemetry_events) AS ids,
        (SELECT count() FROM numbers({events}) AS sent LEFT ANTI JOIN pharos.telemetry_events AS e
         ON toString(sent.number) = e.id) AS lost
"""


# More kills repeat the same race at other moments.
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("kills", "events"), [(4, 30_000), pytest.param(10, 120_000, marks=pytest.mark.full)]
)
def test_every_event_is_stored_once_after_random_kills(tmp_path: Path, kills: int, events: int) -> None:
    file = tmp_path / "events.ndjson"
    with file.open("w") as out:
        for number in range(events):
            out.write(json.dumps({"type": "log", "id": str(number), "title": "x" * (number % 200)}) + "\n")
    moments = random.Random(20261120)
    variables = {"PHAROS_INGEST_RATE": "1000000", "PHAROS_INGEST_BURST": "1000000"}
    with platform_process(tmp_path / "data", env=variables) as platform:
        command = [str(PHAROS), "send", str(file), "--data", str(platform.data)]
        # So slow that the kills happen during the transfer, on any machine.
        slowly = [*command, "--rate", "1500"]
        sender = fork_server.popen(slowly, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for kill in range(kills):
                time.sleep(moments.uniform(0.1, 1.5))
                platform.kill()
                if kill % 4 == 3:
                    sender.kill()
                    sender.wait()
                    sender = fork_server.popen(slowly, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                platform.start()
            assert sender.poll() is None, "the kills came after the transfer"
            sender.kill()
            sender.wait()
            sender = fork_server.popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            assert sender.wait(180) == 0
        finally:
            sender.kill()
            sender.wait()
        platform.wait_until_consumed()
        assert platform.query(_DIFFERENCE.format(events=events)) == [
            {"stored": events, "ids": events, "lost": 0}
        ]
        again = fork_server.run([*command, "--json"], capture_output=True, text=True, timeout=180)
        assert json.loads(again.stdout)["events_sent"] == 0, "a file that was sent is not sent again"
