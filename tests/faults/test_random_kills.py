"""`kill -9` of the platform and of the sender at random moments while a file is being shipped."""

import json
import random
import subprocess
import time
from pathlib import Path

import pytest

from tests.support import fork_server
from tests.support.platform_process import PHAROS, platform_process

_EVENTS = 120_000
_KILLS = 10
# What was sent, held against what is there by ID: in ClickHouse, whose `numbers` makes the IDs that were sent.
_DIFFERENCE = f"""
    SELECT
        (SELECT count() FROM pharos.telemetry_events) AS stored,
        (SELECT uniqExact(id) FROM pharos.telemetry_events) AS ids,
        (SELECT count() FROM numbers({_EVENTS}) AS sent LEFT ANTI JOIN pharos.telemetry_events AS e
         ON toString(sent.number) = e.id) AS lost
"""


@pytest.mark.timeout(600)
def test_every_event_is_there_once_after_ten_kills(tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson"
    with file.open("w") as out:
        for number in range(_EVENTS):
            out.write(json.dumps({"type": "log", "id": str(number), "title": "x" * (number % 200)}) + "\n")
    moments = random.Random(20261120)
    variables = {"PHAROS_INGEST_RATE": "1000000", "PHAROS_INGEST_BURST": "1000000"}
    with platform_process(tmp_path / "data", env=variables) as platform:
        command = [str(PHAROS), "send", str(file), "--data", str(platform.data)]
        # So slow that the kills fall into the sending, whatever the machine.
        slowly = [*command, "--rate", "3000"]
        sender = fork_server.popen(slowly, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for kill in range(_KILLS):
                time.sleep(moments.uniform(0.1, 1.5))
                platform.kill()
                if kill % 4 == 3:
                    sender.kill()
                    sender.wait()
                    sender = fork_server.popen(slowly, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                platform.start()
            assert sender.poll() is None, "the kills came after the sending"
            sender.kill()
            sender.wait()
            sender = fork_server.popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            assert sender.wait(180) == 0
        finally:
            sender.kill()
            sender.wait()
        platform.wait_until_consumed()
        assert platform.query(_DIFFERENCE) == [{"stored": _EVENTS, "ids": _EVENTS, "lost": 0}]
        again = fork_server.run([*command, "--json"], capture_output=True, text=True, timeout=180)
        assert json.loads(again.stdout)["events_sent"] == 0, "a file that was sent is not sent again"
