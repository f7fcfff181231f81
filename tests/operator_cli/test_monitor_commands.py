"""`pharos heartbeat`, `heartbeats`, `queue` and `queues` on both kinds of installation: a running `pharos up`, and the
engines of separate processes."""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from operator_cli.durations import parse_duration
from pipeline_contracts.credentials import CredentialKind, digest_credential, is_well_formed
from pipeline_contracts.rate_limits import RateLimit
from storage_backends.key_directory.interface import KeyEntry
from storage_backends.key_directory.redis import open_redis_key_directory
from tests.operator_cli.run_with_time_limits import program_with_time_limits
from tests.support.commands import CLEAN_ENVIRONMENT, RunCommand, command_runner, expect_refusal, run_json
from tests.support.platform_process import PlatformProcess


def test_heartbeats_are_created_listed_paused_and_removed(pharos: RunCommand) -> None:
    options = ("--cron", "0 3 * * *", "--timezone", "Europe/Oslo", "--grace", "30m", "--max-runtime", "2h")
    created = run_json(pharos, "heartbeat", "create", "nightly [red]", *options, "--failures", "2")
    assert is_well_formed(created["key"], CredentialKind.MONITOR_KEY)
    number = str(created["id"])
    shown = run_json(pharos, "heartbeat", "show", number)
    names = ("name", "cron", "timezone", "grace_seconds", "max_runtime_seconds", "failures_before_down")
    assert [shown[name] for name in names] == ["nightly [red]", "0 3 * * *", "Europe/Oslo", 1800, 7200, 2]
    assert (shown["state"], shown["runs"]) == ("new", [])
    assert run_json(pharos, "heartbeat", "pause", number)["state"] == "paused"
    assert run_json(pharos, "heartbeats") == run_json(pharos, "heartbeat", "list")
    assert "paused" in {one["state"] for one in run_json(pharos, "heartbeats")}
    resumed = pharos("heartbeat", "resume", number)
    assert (resumed.returncode, resumed.stdout) == (0, f"Heartbeat {number} is new.\n")
    output = pharos("heartbeat", "show", number).stdout
    assert all(part in output for part in ("nightly [red]", "0 3 * * * Europe/Oslo", "30m", "2h"))


def test_queues_are_created_listed_and_removed(pharos: RunCommand) -> None:
    created = run_json(pharos, "queue", "create", "mail")
    shown = run_json(pharos, "queue", "show", str(created["id"]))
    assert (shown["name"], shown["pending"], shown["workers"]) == ("mail", None, [])
    assert run_json(pharos, "queues") == run_json(pharos, "queue", "list")
    for command in (["queues"], ["queue", "list"], ["queue", "show", str(created["id"])]):
        done = pharos(*command)
        assert (done.returncode, done.stderr, "mail" in done.stdout) == (0, "", True)
        assert created["key"] not in done.stdout


def test_the_settings_of_a_heartbeat_are_changed(pharos: RunCommand) -> None:
    number = str(run_json(pharos, "heartbeat", "create", "to be changed", "--period", "1h")["id"])
    options = ("--cron", "0 3 * * *", "--timezone", "Europe/Oslo", "--grace", "30m")
    output = run_json(pharos, "heartbeat", "set", number, *options)
    assert output == {
        name: value for name, value in run_json(pharos, "heartbeat", "show", number).items() if name in output
    }
    done = pharos("heartbeat", "set", number, "--period", "2h", "--max-runtime", "1d", "--failures", "3")
    assert (done.returncode, done.stdout) == (0, f"Heartbeat {number} is new.\n")
    shown = run_json(pharos, "heartbeat", "show", number)
    names = (
        "period_seconds",
        "cron",
        "timezone",
        "grace_seconds",
        "max_runtime_seconds",
        "failures_before_down",
    )
    assert [shown[name] for name in names] == [7200, None, "Europe/Oslo", 1800, 86_400, 3]
    assert expect_refusal(pharos, "heartbeat", "set", number).startswith("Say what to change: ")


@pytest.mark.parametrize(("kind", "goes_too"), [("heartbeat", "runs"), ("queue", "workers")])
def test_removing_requires_confirmation(pharos: RunCommand, kind: str, goes_too: str) -> None:
    schedule = ["--period", "1h"] if kind == "heartbeat" else []
    created, retained = (run_json(pharos, kind, "create", f"removed {n}", *schedule) for n in range(2))
    number = str(created["id"])
    assert expect_refusal(pharos, kind, "remove", number) == (
        f"Without a terminal nobody can be asked whether to remove {kind} {number} with its keys and {goes_too}: "
        "add --yes to do it."
    )
    done = pharos(kind, "remove", number, "--yes")
    assert (done.returncode, done.stdout) == (0, f"{kind.title()} {number}, removed 0, is removed.\n")
    there = [one["id"] for one in run_json(pharos, kind, "list")]
    assert created["id"] not in there and retained["id"] in there
    again = expect_refusal(pharos, kind, "remove", number, "--yes")
    assert again == f"There is no {kind} {number}; `pharos {kind} list` shows all."
    output = run_json(pharos, kind, "remove", str(retained["id"]), "--yes")
    assert output == {"id": retained["id"], "name": "removed 1", "removed": True}


@pytest.mark.parametrize("kind", ["heartbeat", "queue"])
def test_keys_are_shown_once_and_revoked(pharos: RunCommand, kind: str) -> None:
    schedule = ["--period", "1h"] if kind == "heartbeat" else []
    done = pharos(kind, "create", "told once", *schedule)
    assert done.returncode == 0
    first, _, rest = done.stdout.partition("\n")
    assert first.endswith("Its key, shown this once:")
    key, number = rest.partition("\n")[0], first.split()[1].rstrip(".")
    assert is_well_formed(key, CredentialKind.MONITOR_KEY)
    other = run_json(pharos, kind, "new-key", number)
    assert other["key"] != key
    assert key not in pharos(kind, "show", number).stdout + pharos(f"{kind}s").stdout
    keys = run_json(pharos, kind, "show", number)["keys"]
    assert [one["state"] for one in keys] == ["live", "live"]
    revoked = pharos(kind, "revoke-key", number, str(keys[0]["id"]))
    assert revoked.stdout == f"Key {keys[0]['id']} is revoked.\n"
    assert [one["state"] for one in run_json(pharos, kind, "show", number)["keys"]] == ["revoked", "live"]


@pytest.mark.parametrize(
    ("command", "output"),
    [
        (["heartbeat", "create", "x", "--period", "1h", "--timezone", "Mars"], "'Mars' is no time zone"),
        (["heartbeat", "create", "x", "--period", "1h", "--environment", "env_no"], "no environment env_no"),
        (["heartbeat", "show", "9999"], "There is no heartbeat 9999; `pharos heartbeat list` shows all."),
        (["queue", "new-key", "9999"], "There is no queue 9999; `pharos queue list` shows all."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_impossible_requests_fail_with_one_sentence(
    pharos: RunCommand, command: list[str], output: str
) -> None:
    assert output in expect_refusal(pharos, *command)


def test_duplicate_names_are_refused(pharos: RunCommand) -> None:
    for command in (["heartbeat", "create", "twice", "--period", "1h"], ["queue", "create", "twice"]):
        assert pharos(*command).returncode == 0
        again = pharos(*command)
        assert again.returncode == 1
        assert again.stderr == "pharos: The environment has one of the name 'twice' already.\n"


async def _look_up(redis_url: str, key: str) -> KeyEntry | None:
    """Return what an edge without a cache finds for the key."""
    directory = await open_redis_key_directory(redis_url, follow=False)
    try:
        return await directory.find(digest_credential(key))
    finally:
        await directory.close()


async def test_a_monitor_created_on_engines_is_known_at_the_edges(
    on_engines: RunCommand, own_redis_url: str
) -> None:
    """The key is in Redis at once, and removed when it is revoked."""
    created = run_json(on_engines, "heartbeat", "create", "told the edges", "--period", "90s")
    entry = await _look_up(own_redis_url, created["key"])
    assert entry is not None
    assert (entry.monitor, entry.limit) == (f"heartbeat/{created['id']}", RateLimit(10, 20))
    run_json(on_engines, "heartbeat", "revoke-key", str(created["id"]), str(created["key_id"]))
    assert await _look_up(own_redis_url, created["key"]) is None
    other = run_json(on_engines, "heartbeat", "new-key", str(created["id"]))
    assert await _look_up(own_redis_url, other["key"]) is not None
    run_json(on_engines, "heartbeat", "remove", str(created["id"]), "--yes")
    assert await _look_up(own_redis_url, other["key"]) is None


def _line(output: str, word: str) -> str:
    (line,) = [line for line in output.splitlines() if word in line]
    return line


def test_the_printed_commands_work_as_pasted(on_socket: PlatformProcess, tmp_path: Path) -> None:
    """Run the commands in a shell, in any folder."""
    heartbeat = on_socket.run("heartbeat", "create", "pasted", "--period", "1h").stdout
    queue = on_socket.run("queue", "create", "pasted").stdout
    program = tmp_path / "bin" / "pharos"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{program_with_time_limits()}")
    program.chmod(0o755)
    search = {**CLEAN_ENVIRONMENT, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    for line in (_line(heartbeat, "curl -sS"), _line(queue, "curl")):
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=180, cwd=tmp_path)
        assert (done.stderr, json.loads(done.stdout)) == ("", {"data": {"status": "accepted"}})
    line = _line(heartbeat, "pharos run").replace("your-command", "echo done")
    done = subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, timeout=180, cwd=tmp_path, env=search
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_the_printed_ping_url_works_as_pasted(on_socket: PlatformProcess, tmp_path: Path) -> None:
    """Run the crontab line and the script with the system's shell and curl."""
    output = on_socket.run("heartbeat", "create", "pinged", "--period", "1h", "--failures", "9").stdout
    number = output.split()[1].rstrip(".")
    _, _, crontab = _line(output, "0 3 * * *").partition("* * *")
    failing = crontab.replace("/usr/local/bin/backup", "exit_with() { return $1; }; exit_with 3")
    script = (
        output[output.index("In a script") :].split("\n", 1)[1].replace("your-command", "echo all is well")
    )
    for lines in (failing, script):
        done = subprocess.run(["sh", "-c", lines], capture_output=True, text=True, timeout=180, cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def runs() -> list[dict[str, object]]:
        found: list[dict[str, object]] = run_json(on_socket.run, "heartbeat", "show", number)["runs"]
        return found

    deadline = time.monotonic() + 90
    while [run["exit_status"] for run in runs()] != [0, 3]:
        assert time.monotonic() < deadline, runs()
        time.sleep(0.1)
    succeeded, failed = runs()
    assert (succeeded["outcome"], succeeded["output"]) == ("succeeded", "all is well")
    assert succeeded["duration_seconds"] is not None
    assert (failed["outcome"], failed["output"]) == ("failed", None)
    shown = on_socket.run("heartbeat", "show", number).stdout
    # The URL is on one line, to be copied; the output of the job follows.
    (url,) = [word for word in shown.split() if "/ping/phr_png_" in word]
    assert f"{url}/$?" in output and "all is well" in shown


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    """The arguments are refused before any request."""
    create = ("heartbeat", "create", "x")
    for arguments, output in (
        (create, "one of the arguments --period --cron is required"),
        ((*create, "--period", "1h", "--cron", "* * * * *"), "not allowed with argument"),
        ((*create, "--period", "1w"), "'1w' is no duration; write 90s, 30m, 2h or 1d"),
        (("heartbeat", "show", "first"), "invalid int value: 'first'"),
        (("heartbeat", "set", "1", "--period", "1h", "--cron", "* * * * *"), "not allowed with argument"),
        (("queue", "set", "1"), "there is no action 'set'"),
        (("queue",), "the following arguments are required: ACTION"),
    ):
        done = command_runner(tmp_path)(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert output in done.stderr


def test_without_a_platform_the_advice_is_to_start_one(tmp_path: Path) -> None:
    for command in ("heartbeats", "queues"):
        done = command_runner(tmp_path)(command, "--data", str(tmp_path))
        assert done.returncode == 1
        assert done.stderr.startswith(f"pharos: Nothing runs on {tmp_path}. Start `pharos up")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("30m", 1800), ("2h", 7200), ("1d", 86_400), ("45", 45), (" 1h ", 3600)],
)
def test_durations_are_parsed(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "1w", "-1h", "1.5h", "1h30m", "9" * 10])
def test_invalid_durations_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is no duration"):
        parse_duration(text)
