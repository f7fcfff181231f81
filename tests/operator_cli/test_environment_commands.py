"""`pharos environment`, `lock` and `unlock` on both kinds of installation: a running `pharos up`, and the engines of
parts that are processes of their own."""

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
    """A new environment, of a name of its own."""
    name = f"Env {uuid.uuid4().hex[:8]}"
    made: dict[str, Any] = ask(pharos, "environment", "create", name, "--type", "staging", *arguments)
    return made


def called(environment: dict[str, Any]) -> str:
    return f"{environment['project']['slug']}/{environment['slug']}"


def test_an_environment_through_its_commands(pharos: Run) -> None:
    told = tell(pharos, "environment", "create", "Test [red] Öst", "--type", "development", "--order", "7")
    made = next(one for one in ask(pharos, "environment", "list") if one["slug"] == "test-red-ost")
    name = called(made)
    assert told == (
        f"Environment {name} is created: {made['id']}.\n"
        f"It has no ingest key yet; `pharos keys create --environment {made['id']}` creates one.\n"
    )
    assert (made["name"], made["order"], made["branch"]) == ("Test [red] Öst", 7, None)
    assert ask(pharos, "keys", "create", "--environment", name)["environment_id"] == made["id"]
    shown = tell(
        pharos,
        *("environment", "set", name, "--name", "Live", "--branch", "live", "--deploy-approval", "on"),
        *("--window", "mon-thu 09:00-16:00 Europe/Oslo", "--order", "2"),
    )
    for part in (
        "Live\n",
        f"{made['id']} (number {made['number']})",
        f"path         {name}\n",
        "development, order 2",
        "branch       live\n",
        "mon,tue,wed,thu 09:00-16:00 Europe/Oslo",
        "deploys wait for a second person",
        "lock         none",
    ):
        assert part in shown, part
    done = tell(pharos, "environment", "scale", str(made["number"]), "3")
    assert done == f"Environment {name} will have 3 replicas.\n"
    assert tell(pharos, "environment", "hibernate", made["id"]) == f"Environment {name} will hibernate.\n"
    one = ask(pharos, "environment", "show", name)
    assert (one["state"], one["desired_replicas"], one["approval"]["deploys"]) == ("hibernated", 3, True)
    assert tell(pharos, "environment", "wake", made["id"]) == f"Environment {name} will run.\n"
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
    assert name in listed.replace("\n", "") and made["id"] in listed
    project = made["project"]["slug"]
    assert ask(pharos, "environment", "list", "--project", project) == ask(pharos, "environment", "list")


def test_a_lock_through_its_commands(pharos: Run) -> None:
    made = add(pharos)
    name = called(made)
    assert tell(pharos, "unlock", name) == f"Environment {name} was not locked.\n"
    done = tell(pharos, "lock", name, "--reason", "sale [red]")
    assert done == f"Environment {name} is locked: sale [red]\n"
    line = refused(pharos, "lock", name, "--reason", "mine")
    assert line.startswith(f"Environment {name} is locked already, by an operator since ")
    assert line.endswith(f": sale [red]; `pharos unlock {made['number']}` ends that.")
    assert "locked by an operator: sale [red]" in tell(pharos, "environment", "show", name)
    assert "locked by" in tell(pharos, "environment", "list")
    assert ask(pharos, "environment", "show", name)["lock"]["reason"] == "sale [red]"
    done = tell(pharos, "unlock", name)
    assert done == f"Environment {name} is unlocked. It was locked by an operator: sale [red]\n"
    assert ask(pharos, "unlock", name)["was"] is None


def test_removing_asks_first_and_tells_what_went(pharos: Run) -> None:
    made = add(pharos)
    name = called(made)
    ask(pharos, "keys", "create", "--environment", made["id"])
    heartbeat = ask(pharos, "heartbeat", "create", "backup", "--period", "1h", "--environment", made["id"])
    # The heartbeat's ping key is made where variables' keys are set.
    keys = 2 + ("ping_key" in heartbeat)
    line = refused(pharos, "environment", "remove", name)
    assert line == (
        f"Without a terminal nobody can be asked whether to remove the environment {name} with its keys, heartbeats, "
        "queues, variables and releases: add --yes to do it."
    )
    told = tell(pharos, "environment", "remove", name, "--yes")
    assert told == (
        f"Environment {made['slug']} is removed, with {keys} keys, 1 heartbeat, 0 queues.\n"
        "Its deployments are still listed; telemetry stays until its retention ends.\n"
    )
    assert refused(pharos, "environment", "remove", name, "--yes") == (
        f"There is no environment {name}; `pharos environment list` shows all."
    )
    entry = ask(pharos, "audit", "--limit", "1")[0]
    assert (entry["action"], entry["details"]["keys"]) == ("environment.remove", keys)
    assert entry["source"].startswith("operator ")


def test_its_keys_work_nowhere_any_more_embedded(on_socket: PlatformProcess) -> None:
    made = add(on_socket.run)
    key = ask(on_socket.run, "keys", "create", "--environment", made["id"])["ingest_key"]
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    sent = on_socket.request("POST", "/api/v1/ingest", body=b"{}", headers=headers)
    assert sent.status == 422
    ask(on_socket.run, "environment", "remove", made["id"], "--yes")
    sent = on_socket.request("POST", "/api/v1/ingest", body=b"{}", headers=headers)
    assert sent.status == 401


async def test_its_keys_work_nowhere_any_more_on_engines(on_engines: Run, own_redis_url: str) -> None:
    made = add(on_engines)
    key = ask(on_engines, "keys", "create", "--environment", made["id"])["ingest_key"]
    assert await _is_known(own_redis_url, key)
    ask(on_engines, "environment", "remove", made["id"], "--yes")
    assert not await _is_known(own_redis_url, key)


async def _is_known(redis_url: str, key: str) -> bool:
    """Whether an edge that has never seen the key takes it."""
    directory = await open_redis_key_directory(redis_url, follow=False)
    try:
        return await directory.find(digest_credential(key)) is not None
    finally:
        await directory.close()


@pytest.mark.parametrize(
    ("command", "told"),
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
def test_what_cannot_be_is_one_sentence(pharos: Run, command: list[str], told: str) -> None:
    assert told in refused(pharos, *command)


def test_arguments_that_are_wrong(tmp_path: Path) -> None:
    """Refused before anything is asked."""
    for arguments, told in (
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
        assert told in done.stderr
