"""`pharos heartbeat`, `heartbeats`, `queue` and `queues` on a running `pharos up`."""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from operator_cli.durations import parse_duration
from pipeline_contracts.credentials import CredentialKind, is_well_formed
from tests.operator_cli.run_with_time_limits import program_with_time_limits
from tests.support.commands import (
    CLEAN_ENVIRONMENT,
    RunCommand,
    command_runner,
    expect_refusal,
    run_json,
    run_text,
)
from tests.support.platform_process import PlatformProcess


def test_heartbeats_are_created_listed_changed_and_paused(pharos: RunCommand) -> None:
    options = ("--cron", "0 3 * * *", "--timezone", "Europe/Oslo", "--grace", "30m", "--max-runtime", "2h")
    created = run_json(pharos, "heartbeat", "create", "nightly [red]", *options, "--failures", "2")
    assert is_well_formed(created["key"]["key"], CredentialKind.MONITOR_KEY)
    number = str(created["id"])
    shown = run_json(pharos, "heartbeat", "show", number)
    names = ("name", "cron", "timezone", "grace_seconds", "max_runtime_seconds", "failures_before_down")
    assert [shown[name] for name in names] == ["nightly [red]", "0 3 * * *", "Europe/Oslo", 1800, 7200, 2]
    assert (shown["state"], shown["runs"]) == ("new", [])
    assert shown["ping_keys"] == [created["ping_key"]]
    # By its name, its environment and name, and its whole path.
    assert run_json(pharos, "heartbeat", "pause", "nightly [red]")["state"] == "paused"
    assert run_text(pharos, "heartbeats", "--state", "paused", "-q") == f"{number}\n"
    assert run_text(pharos, "heartbeat", "resume", "production/nightly [red]") == (
        "Heartbeat nightly [red]: 0 3 * * * Europe/Oslo, state new.\n"
    )
    changed = run_json(pharos, "heartbeat", "set", number, "--every", "2h", "--failures", "3")
    assert [changed[name] for name in ("period_seconds", "cron", "failures_before_down")] == [7200, None, 3]
    path = f"{changed['project']['slug']}/production/nightly [red]"
    output = run_text(pharos, "heartbeat", "rename", path, "hourly")
    assert output == "Heartbeat nightly [red] is called hourly now.\n"
    page = run_text(pharos, "heartbeat", "show", "hourly")
    for part in ("hourly", "every 2h", "30m", created["ping_key"]["urls"]["success"], "no runs"):
        assert part in page, part
    listed = run_text(pharos, "heartbeats")
    assert "hourly" in listed and "first-heartbeat" in listed and "every 2h" in listed
    assert run_json(pharos, "heartbeats") == run_json(
        pharos, "heartbeat", "list", "--environment", "production"
    )


def test_a_job_reports_by_the_name_of_its_heartbeat_and_the_login(on_socket: PlatformProcess) -> None:
    """Nobody has to keep a key: the token may read the ping URL."""

    def pharos(*command: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return on_socket.run(*command, stdin=stdin)

    number = str(run_json(pharos, "heartbeat", "create", "hourly-sync", "--every", "1h")["id"])
    data = ("--data", str(on_socket.data))
    for heartbeat, status in (("hourly-sync", 0), (number, 3)):
        job = ("run", "--heartbeat", heartbeat, *data, "--", "sh", "-c", f"exit {status}")
        done = on_socket.run(*job, data=False)
        assert (done.returncode, done.stderr) == (status, "")
    deadline = time.monotonic() + 60
    while True:
        runs = run_json(pharos, "heartbeat", "runs", number)
        outcomes = sorted(run["outcome"] for run in runs)
        if outcomes == ["failed", "succeeded"] or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    assert outcomes == ["failed", "succeeded"]
    done = on_socket.run("run", "--heartbeat", "no-such", *data, "--", "echo", "ran", data=False)
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert "the job runs unreported" in done.stderr and "pharos heartbeat new-key no-such" in done.stderr
    shown = pharos("heartbeat", "create", "hourly-sync", "--every", "1h")
    assert shown.returncode == 1 and "heartbeat show" in shown.stderr and "heartbeat new-key" in shown.stderr
    printed = run_text(pharos, "queue", "create", "exported")
    assert "\n  export PHAROS_QUEUES=exported=" in printed


def test_queues_are_created_listed_and_shown(pharos: RunCommand) -> None:
    created = run_json(pharos, "queue", "create", "mail")
    shown = run_json(pharos, "queue", "show", str(created["id"]))
    assert (shown["name"], shown["pending"], shown["workers"]["busy"]) == ("mail", None, 0)
    assert shown["worker_list"] == []
    assert run_text(pharos, "queue", "rename", "mail", "post") == "Queue mail is called post now.\n"
    for command in (["queues"], ["queue", "show", "post"]):
        output = run_text(pharos, *command)
        assert "post" in output and created["key"]["key"] not in output


@pytest.mark.parametrize(("kind", "removed_too"), [("heartbeat", "runs"), ("queue", "workers")])
def test_removing_requires_confirmation(pharos: RunCommand, kind: str, removed_too: str) -> None:
    schedule = ["--period", "1h"] if kind == "heartbeat" else []
    number = str(run_json(pharos, kind, "create", "removed", *schedule)["id"])
    assert expect_refusal(pharos, kind, "remove", "removed") == (
        f"Without a terminal, pharos cannot ask whether to remove {kind} {number}, removed, with its keys and "
        f"{removed_too}: add --yes to do it."
    )
    assert run_text(pharos, kind, "remove", number, "--yes") == f"{kind.title()} removed is removed.\n"
    assert int(number) not in [row["id"] for row in run_json(pharos, f"{kind}s")]
    again = expect_refusal(pharos, kind, "remove", number, "--yes", status=5)
    assert again.startswith(f"There is no {kind} '{number}'. There are: ")


@pytest.mark.parametrize("kind", ["heartbeat", "queue"])
def test_keys_are_shown_once_and_revoked(pharos: RunCommand, kind: str) -> None:
    schedule = ["--every", "1h"] if kind == "heartbeat" else []
    created = run_text(pharos, kind, "create", "shown once", *schedule)
    first, key, *_ = created.splitlines()
    assert is_well_formed(key, CredentialKind.MONITOR_KEY)
    number = first.split()[1].rstrip(",")
    other = run_json(pharos, kind, "new-key", number)
    assert other["key"] != key
    assert key not in run_text(pharos, kind, "show", number) + run_text(pharos, f"{kind}s")
    keys = run_json(pharos, kind, "show", number)["keys"]
    assert [key["state"] for key in keys] == ["live", "live"]
    assert (
        run_text(pharos, kind, "revoke-key", "shown once", str(keys[1]["id"]))
        == f"Key {keys[1]['id']} of shown once is revoked.\n"
    )
    assert f"keys         {other['id']} (1 revoked)\n" in run_text(pharos, kind, "show", number)
    assert expect_refusal(pharos, kind, "revoke-key", number, "9999", status=5) == (
        f"{kind.title()} shown once has no key 9999; `pharos {kind} show {number}` lists its keys."
    )


def test_ping_keys_are_created_and_revoked(pharos: RunCommand) -> None:
    """The first heartbeat has none: showing it creates none."""
    assert run_json(pharos, "heartbeat", "show", "first-heartbeat")["ping_keys"] == []
    page = run_text(pharos, "heartbeat", "show", "first-heartbeat")
    assert "`pharos heartbeat new-ping-key 1` makes a ping URL" in page
    made = run_json(pharos, "heartbeat", "new-ping-key", "first-heartbeat")
    assert made["urls"]["success"] in run_text(pharos, "heartbeat", "show", "1")
    revoked = run_json(pharos, "heartbeat", "revoke-key", "1", str(made["id"]))
    assert (revoked["id"], revoked["state"]) == (made["id"], "revoked")
    line = f"{'ping key ' + str(made['id']):<12} revoked\n"
    assert line in run_text(pharos, "heartbeat", "show", "1")


def test_impossible_requests_say_why(pharos: RunCommand) -> None:
    create = ("heartbeat", "create", "x", "--every", "1h")
    for command, status, message in (
        ((*create, "--timezone", "Mars"), 1, "  timezone: 'Mars' is no time zone."),
        ((*create, "--environment", "nobody"), 5, "There is no environment 'nobody'."),
        (("heartbeat", "create", "first-heartbeat", "--every", "1h"), 1, "has a heartbeat with the name"),
        (("heartbeat", "show", "first-hartbeat"), 5, "Did you mean 'first-heartbeat'?"),
        (("heartbeat", "output", "first-heartbeat"), 5, "of first-heartbeat has an output."),
        (("queue", "create", "default"), 1, "has a queue with the name 'default' already."),
        (("queue", "new-key", "9999"), 5, "There is no queue '9999'."),
    ):
        done = pharos(*command)
        assert (done.returncode, done.stdout) == (status, ""), done
        assert message in done.stderr, done


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
    _, _, crontab = _line(output, "0 * * * *").partition("0 * * * *")
    failing = crontab.replace("/usr/local/bin/backup", "exit_with() { return $1; }; exit_with 3")
    script = (
        output[output.index("In a script") :].split("\n", 1)[1].replace("your-command", "echo all is well")
    )
    for lines in (failing, script):
        done = subprocess.run(["sh", "-c", lines], capture_output=True, text=True, timeout=180, cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def runs() -> list[dict[str, object]]:
        found: list[dict[str, object]] = run_json(on_socket.run, "heartbeat", "runs", "pinged")
        return found

    deadline = time.monotonic() + 90
    while [run["exit_status"] for run in runs()] != [0, 3]:
        assert time.monotonic() < deadline, runs()
        time.sleep(0.1)
    succeeded, failed = runs()
    assert (succeeded["outcome"], succeeded["has_output"]) == ("succeeded", True)
    assert succeeded["duration_seconds"] is not None
    assert (failed["outcome"], failed["has_output"]) == ("failed", False)
    assert run_text(on_socket.run, "heartbeat", "output", "pinged") == "all is well\n"
    assert run_json(on_socket.run, "heartbeat", "output", "pinged")["run_id"] == succeeded["run_id"]
    expect_refusal(on_socket.run, "heartbeat", "output", "pinged", str(failed["run_id"]), status=5)
    assert run_json(on_socket.run, "heartbeat", "runs", "pinged", "-n", "1") == [succeeded]
    shown = on_socket.run("heartbeat", "show", "pinged").stdout
    # The URL is on one line, to be copied; the output of the job follows.
    (url,) = [word for word in shown.split() if "/ping/phr_png_" in word]
    assert f"{url}/$?" in output and "all is well" in shown


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    """The arguments are refused before any request."""
    create = ("heartbeat", "create", "x")
    for arguments, output in (
        (create, "one of the arguments --every/--period --cron is required"),
        ((*create, "--period", "1h", "--cron", "* * * * *"), "not allowed with argument"),
        ((*create, "--period", "1w"), "'1w' is no duration; write 90s, 30m, 2h or 1d"),
        (("heartbeat", "set", "1", "--period", "1h", "--cron", "* * * * *"), "not allowed with argument"),
        (("heartbeat", "revoke-key", "backup", "first"), "invalid int value: 'first'"),
        (("queue", "set", "1"), "there is no verb 'set'"),
        (("queue",), "the following arguments are required: VERB"),
    ):
        done = command_runner(tmp_path)(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert output in done.stderr


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
