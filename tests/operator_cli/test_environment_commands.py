"""`pharos environment`, `lock` and `unlock` on both kinds of installation: a running `pharos up`, and the engines of
separate processes."""

import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

from pipeline_contracts.credentials import digest_credential
from storage_backends.key_directory.redis import open_redis_key_directory
from tests.support.commands import RunCommand, command_runner, expect_refusal, run_json, run_text
from tests.support.platform_process import PlatformProcess
from tests.support.published_keys import create_published_key


def add(pharos: RunCommand, *arguments: str) -> dict[str, Any]:
    """A new environment with a unique name."""
    name = f"Env {uuid.uuid4().hex[:8]}"
    created: dict[str, Any] = run_json(pharos, "environment", "create", name, "--type", "staging", *arguments)
    return created


def called(environment: dict[str, Any]) -> str:
    return f"{environment['project']['slug']}/{environment['slug']}"


def test_environments_are_created_listed_changed_and_shown(pharos: RunCommand) -> None:
    output = run_text(
        pharos, "environment", "create", "Test [red] Öst", "--type", "development", "--order", "7"
    )
    created = next(one for one in run_json(pharos, "environment", "list") if one["slug"] == "test-red-ost")
    name = called(created)
    assert output == (
        f"Environment {name} is created: {created['id']}.\n"
        f"It has no ingest key yet; `pharos keys create --environment {created['id']}` creates one.\n"
    )
    assert (created["name"], created["order"], created["branch"]) == ("Test [red] Öst", 7, None)
    assert run_json(pharos, "keys", "create", "--environment", name)["environment_id"] == created["id"]
    shown = run_text(
        pharos,
        *("environment", "set", name, "--name", "Live", "--branch", "live", "--deploy-approval", "on"),
        *("--window", "mon-thu 09:00-16:00 Europe/Oslo", "--order", "2"),
    )
    for part in (
        "Live\n",
        f"{created['id']} (number {created['number']})",
        f"path         {name}\n",
        "development, order 2",
        "branch       live\n",
        "mon,tue,wed,thu 09:00-16:00 Europe/Oslo",
        "deploys wait for a second person",
        "lock         none",
    ):
        assert part in shown, part
    done = run_text(pharos, "environment", "scale", str(created["number"]), "3")
    assert done == f"Environment {name} will have 3 replicas.\n"
    assert (
        run_text(pharos, "environment", "hibernate", created["id"]) == f"Environment {name} will hibernate.\n"
    )
    one = run_json(pharos, "environment", "show", name)
    assert (one["state"], one["desired_replicas"], one["approval"]["deploys"]) == ("hibernated", 3, True)
    assert run_text(pharos, "environment", "wake", created["id"]) == f"Environment {name} will run.\n"
    wanted = ("--no-window", "--no-branch", "--deploy-approval", "off", "--variable-approval", "on")
    line = expect_refusal(pharos, "environment", "set", name, *wanted)
    assert line.startswith(f"Environment {name} wants a second person, and this would take away the approval")
    agreed = []
    for flag in ("--by", "--approved-by"):
        email = f"{uuid.uuid4().hex[:8]}@gates.example"
        run_json(pharos, "person", "add", email, "--name", "Kim", "--role", "admin")
        agreed += [flag, email]
    one = run_json(pharos, "environment", "set", name, *wanted, *agreed)
    assert (one["window"], one["branch"]) == (None, None)
    assert one["approval"] == {"deploys": False, "variables": True}
    shown = run_text(pharos, "environment", "show", name)
    for part in (
        "at any time",
        "the repository's",
        "variables wait",
        "live         nothing",
        "waiting      nothing",
    ):
        assert part in shown, part
    listed = run_text(pharos, "environment", "list")
    assert name in listed.replace("\n", "") and created["id"] in listed
    project = created["project"]["slug"]
    assert run_json(pharos, "environment", "list", "--project", project) == run_json(
        pharos, "environment", "list"
    )


def test_an_environment_is_locked_and_unlocked(pharos: RunCommand) -> None:
    created = add(pharos)
    name = called(created)
    assert run_text(pharos, "unlock", name) == f"Environment {name} was not locked.\n"
    done = run_text(pharos, "lock", name, "--reason", "sale [red]")
    assert done == f"Environment {name} is locked: sale [red]\n"
    line = expect_refusal(pharos, "lock", name, "--reason", "mine")
    assert line.startswith(f"Environment {name} is locked already, by an operator since ")
    assert line.endswith(f": sale [red]; `pharos unlock {created['number']}` ends that.")
    assert "locked by an operator: sale [red]" in run_text(pharos, "environment", "show", name)
    assert "locked by" in run_text(pharos, "environment", "list")
    assert run_json(pharos, "environment", "show", name)["lock"]["reason"] == "sale [red]"
    done = run_text(pharos, "unlock", name)
    assert done == f"Environment {name} is unlocked. It was locked by an operator: sale [red]\n"
    assert run_json(pharos, "unlock", name)["was"] is None


def test_removing_asks_first_and_lists_what_was_removed(pharos: RunCommand) -> None:
    created = add(pharos)
    name = called(created)
    run_json(pharos, "keys", "create", "--environment", created["id"])
    heartbeat = run_json(
        pharos, "heartbeat", "create", "backup", "--period", "1h", "--environment", created["id"]
    )
    # A heartbeat has a ping key only if PHAROS_VARIABLES_KEY is set.
    keys = 2 + ("ping_key" in heartbeat)
    line = expect_refusal(pharos, "environment", "remove", name)
    assert line == (
        f"Without a terminal nobody can be asked whether to remove the environment {name} with its keys, heartbeats, "
        "queues, variables and releases: add --yes to do it."
    )
    output = run_text(pharos, "environment", "remove", name, "--yes")
    assert output == (
        f"Environment {created['slug']} is removed, with {keys} keys, 1 heartbeat, 0 queues.\n"
        "Its deployments are still listed; telemetry stays until its retention ends.\n"
    )
    assert expect_refusal(pharos, "environment", "remove", name, "--yes") == (
        f"There is no environment {name}; `pharos environment list` shows all."
    )
    entry = run_json(pharos, "audit", "--limit", "1")[0]
    assert (entry["action"], entry["details"]["keys"]) == ("environment.remove", keys)
    assert entry["source"].startswith("operator ")


def test_keys_of_a_removed_environment_are_refused_embedded(on_socket: PlatformProcess) -> None:
    created = add(on_socket.run)
    key = run_json(on_socket.run, "key", "create", "--environment", created["id"])["key"]
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    sent = on_socket.request("POST", "/api/v1/ingest", body=b"{}", headers=headers)
    assert sent.status == 422
    run_json(on_socket.run, "environment", "remove", created["id"], "--yes")
    sent = on_socket.request("POST", "/api/v1/ingest", body=b"{}", headers=headers)
    assert sent.status == 401


async def test_keys_of_a_removed_environment_are_refused_on_engines(
    on_engines: RunCommand, own_database_url: str, own_redis_url: str
) -> None:
    created = add(on_engines)
    key = await create_published_key(own_database_url, own_redis_url, created["id"])
    assert await _is_known(own_redis_url, key)
    run_json(on_engines, "environment", "remove", created["id"], "--yes")
    assert not await _is_known(own_redis_url, key)


async def _is_known(redis_url: str, key: str) -> bool:
    """Return True if an edge that has never seen the key accepts it."""
    directory = await open_redis_key_directory(redis_url, follow=False)
    try:
        return await directory.find(digest_credential(key)) is not None
    finally:
        await directory.close()


@pytest.mark.parametrize(
    ("command", "output"),
    [
        (["environment", "show", "nowhere"], "There is no environment nowhere; `pharos environment list`"),
        (["environment", "create", "X", "--type", "staging", "--slug", "7"], "'7' is no slug"),
        (["environment", "create", "X", "--type", "staging", "--project", "no"], "There is no project no;"),
        (
            ["environment", "create", "X", "--type", "staging", "--branch", "a..b"],
            "'a..b' is no name of a branch",
        ),
        (["environment", "set", "production"], "Say what to change: `pharos environment set --help`"),
        (["environment", "set", "production", "--window", "weekdays"], "A window looks like 'mon-thu 09:00"),
        (
            ["environment", "set", "production", "--order", "2000"],
            "The order is a whole number from 0 to 1000.",
        ),
        (["environment", "scale", "production", "21"], "The number of replicas is 1 to 20."),
        (["lock", "production", "--reason", " "], "A reason has 1 to 500 printable characters"),
        (
            ["lock", "production", "--reason", "x", "--by", "nobody@x"],
            "There is no person 'nobody@x'; `pharos person",
        ),
        (["unlock", "nowhere"], "There is no environment nowhere;"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_impossible_requests_fail_with_one_sentence(
    pharos: RunCommand, command: list[str], output: str
) -> None:
    assert output in expect_refusal(pharos, *command)


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    """The arguments are refused before any request."""
    for arguments, output in (
        (("environment",), "the following arguments are required: ACTION"),
        (("environment", "create", "X"), "the following arguments are required: --type"),
        (("environment", "create", "X", "--type", "test"), "invalid choice: 'test'"),
        (("environment", "scale", "x", "many"), "invalid int value: 'many'"),
        (("environment", "set", "x", "--branch", "a", "--no-branch"), "not allowed with argument"),
        (("environment", "set", "x", "--window", "a", "--no-window"), "not allowed with argument"),
        (("environment", "set", "x", "--deploy-approval", "yes"), "invalid choice: 'yes'"),
        (("environment", "remove"), "the following arguments are required: ENVIRONMENT"),
        (("lock", "x"), "the following arguments are required: --reason"),
        (("unlock",), "the following arguments are required: ENVIRONMENT"),
    ):
        done: subprocess.CompletedProcess[str] = command_runner(tmp_path)(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert output in done.stderr
