"""`pharos environment`, `lock` and `unlock` on both kinds of installation: a running `pharos up`, and the engines of
separate processes."""

import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

from pipeline_contracts.credentials import digest_credential
from storage_backends.key_directory.redis import open_redis_key_directory
from tests.support.commands import Run, ask, refused, run_in, tell
from tests.support.platform_process import PlatformProcess


def add(pharos: Run, *arguments: str) -> dict[str, Any]:
    """A new environment with a unique name."""
    name = f"Env {uuid.uuid4().hex[:8]}"
    created: dict[str, Any] = ask(pharos, "environment", "create", name, "--type", "staging", *arguments)
    return created


def called(environment: dict[str, Any]) -> str:
    return f"{environment['project']['slug']}/{environment['slug']}"


def test_environments_are_created_listed_changed_and_shown(pharos: Run) -> None:
    output = tell(pharos, "environment", "create", "Test [red] Öst", "--type", "development", "--order", "7")
    created = next(one for one in ask(pharos, "environment", "list") if one["slug"] == "test-red-ost")
    name = called(created)
    assert output == (
        f"Environment {name} is created: {created['id']}.\n"
        f"It has no ingest key yet; `pharos keys create --environment {created['id']}` creates one.\n"
    )
    assert (created["name"], created["order"], created["branch"]) == ("Test [red] Öst", 7, None)
    assert ask(pharos, "keys", "create", "--environment", name)["environment_id"] == created["id"]
    shown = tell(
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
    done = tell(pharos, "environment", "scale", str(created["number"]), "3")
    assert done == f"Environment {name} will have 3 replicas.\n"
    assert tell(pharos, "environment", "hibernate", created["id"]) == f"Environment {name} will hibernate.\n"
    one = ask(pharos, "environment", "show", name)
    assert (one["state"], one["desired_replicas"], one["approval"]["deploys"]) == ("hibernated", 3, True)
    assert tell(pharos, "environment", "wake", created["id"]) == f"Environment {name} will run.\n"
    wanted = ("--no-window", "--no-branch", "--deploy-approval", "off", "--variable-approval", "on")
    line = refused(pharos, "environment", "set", name, *wanted)
    assert line.startswith(f"Environment {name} wants a second person, and this would take away the approval")
    agreed = []
    for flag in ("--by", "--approved-by"):
        email = f"{uuid.uuid4().hex[:8]}@gates.example"
        ask(pharos, "person", "add", email, "--name", "Kim", "--role", "admin")
        agreed += [flag, email]
    one = ask(pharos, "environment", "set", name, *wanted, *agreed)
    assert (one["window"], one["branch"]) == (None, None)
    assert one["approval"] == {"deploys": False, "variables": True}
    shown = tell(pharos, "environment", "show", name)
    for part in (
        "at any time",
        "the repository's",
        "variables wait",
        "live         nothing",
        "waiting      nothing",
    ):
        assert part in shown, part
    listed = tell(pharos, "environment", "list")
    assert name in listed.replace("\n", "") and created["id"] in listed
    project = created["project"]["slug"]
    assert ask(pharos, "environment", "list", "--project", project) == ask(pharos, "environment", "list")


def test_an_environment_is_locked_and_unlocked(pharos: Run) -> None:
    created = add(pharos)
    name = called(created)
    assert tell(pharos, "unlock", name) == f"Environment {name} was not locked.\n"
    done = tell(pharos, "lock", name, "--reason", "sale [red]")
    assert done == f"Environment {name} is locked: sale [red]\n"
    line = refused(pharos, "lock", name, "--reason", "mine")
    assert line.startswith(f"Environment {name} is locked already, by an operator since ")
    assert line.endswith(f": sale [red]; `pharos unlock {created['number']}` ends that.")
    assert "locked by an operator: sale [red]" in tell(pharos, "environment", "show", name)
    assert "locked by" in tell(pharos, "environment", "list")
    assert ask(pharos, "environment", "show", name)["lock"]["reason"] == "sale [red]"
    done = tell(pharos, "unlock", name)
    assert done == f"Environment {name} is unlocked. It was locked by an operator: sale [red]\n"
    assert ask(pharos, "unlock", name)["was"] is None


def test_removing_asks_first_and_lists_what_was_removed(pharos: Run) -> None:
    created = add(pharos)
    name = called(created)
    ask(pharos, "keys", "create", "--environment", created["id"])
    heartbeat = ask(pharos, "heartbeat", "create", "backup", "--period", "1h", "--environment", created["id"])
    # A heartbeat has a ping key only if PHAROS_VARIABLES_KEY is set.
    keys = 2 + ("ping_key" in heartbeat)
    line = refused(pharos, "environment", "remove", name)
    assert line == (
        f"Without a terminal nobody can be asked whether to remove the environment {name} with its keys, heartbeats, "
        "queues, variables and releases: add --yes to do it."
    )
    output = tell(pharos, "environment", "remove", name, "--yes")
    assert output == (
        f"Environment {created['slug']} is removed, with {keys} keys, 1 heartbeat, 0 queues.\n"
        "Its deployments are still listed; telemetry stays until its retention ends.\n"
    )
    assert refused(pharos, "environment", "remove", name, "--yes") == (
        f"There is no environment {name}; `pharos environment list` shows all."
    )
    entry = ask(pharos, "audit", "--limit", "1")[0]
    assert (entry["action"], entry["details"]["keys"]) == ("environment.remove", keys)
    assert entry["source"].startswith("operator ")


def test_keys_of_a_removed_environment_are_refused_embedded(on_socket: PlatformProcess) -> None:
    created = add(on_socket.run)
    key = ask(on_socket.run, "keys", "create", "--environment", created["id"])["ingest_key"]
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    sent = on_socket.request("POST", "/api/v1/ingest", body=b"{}", headers=headers)
    assert sent.status == 422
    ask(on_socket.run, "environment", "remove", created["id"], "--yes")
    sent = on_socket.request("POST", "/api/v1/ingest", body=b"{}", headers=headers)
    assert sent.status == 401


async def test_keys_of_a_removed_environment_are_refused_on_engines(
    on_engines: Run, own_redis_url: str
) -> None:
    created = add(on_engines)
    key = ask(on_engines, "keys", "create", "--environment", created["id"])["ingest_key"]
    assert await _is_known(own_redis_url, key)
    ask(on_engines, "environment", "remove", created["id"], "--yes")
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
def test_impossible_requests_fail_with_one_sentence(pharos: Run, command: list[str], output: str) -> None:
    assert output in refused(pharos, *command)


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
        done: subprocess.CompletedProcess[str] = run_in(tmp_path)(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert output in done.stderr
