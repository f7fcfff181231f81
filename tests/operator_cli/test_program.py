"""The installed `pharos` script in a new interpreter: packaging, and the imports of each command.

Other tests fork their programs from a server that has imported everything, so they cannot notice a missing import.
"""

import json
import subprocess
from pathlib import Path

import pytest

from operator_cli.grammar.commands import COMMANDS
from tests.support.commands import CLEAN_ENVIRONMENT
from tests.support.platform_process import PHAROS, platform_process

_SECONDS = 180


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_prints_its_help(command: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(PHAROS), command, "--help"],
        capture_output=True, text=True, timeout=_SECONDS, cwd=tmp_path, env=CLEAN_ENVIRONMENT,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: pharos {command} ")


def test_the_platform_starts_and_a_command_reads_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHAROS_TEST_NO_FORK", "1")
    with platform_process(tmp_path / "data") as platform:
        assert type(platform._process) is subprocess.Popen
        answer = platform.ingest({"batch_id": "first", "events": [{"type": "log"}]})
        assert answer.status == 202
        platform.wait_until_consumed()
        done = platform.run("receipt", answer.json["data"]["id"], "--json")
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["status"] == "stored"
        assert platform.stop() == 0
