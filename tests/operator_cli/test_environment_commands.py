"""`pharos environment`, `lock` and `unlock` on a running `pharos up`."""

import uuid
from pathlib import Path
from typing import Any

from tests.support.commands import RunCommand, command_runner, expect_refusal, run_json, run_text
from tests.support.platform_process import PlatformProcess


def _add(pharos: RunCommand, *arguments: str) -> tuple[dict[str, Any], str]:
    """Create an environment with a unique name; return it and its path."""
    name = f"Env {uuid.uuid4().hex[:8]}"
    created: dict[str, Any] = run_json(pharos, "environment", "create", name, "--type", "staging", *arguments)
    return created, f"{created['project']['slug']}/{created['slug']}"


def test_environments_are_created_listed_changed_and_shown(pharos: RunCommand) -> None:
    output = run_text(
        pharos, "environment", "create", "Test [red] Öst", "--type", "development", "--order", "7"
    )
    created = next(one for one in run_json(pharos, "environment", "list") if one["slug"] == "test-red-ost")
    name = f"{created['project']['slug']}/test-red-ost"
    assert output == (
        f"Environment {name} is created: {created['id']}.\n"
        f"It has no ingest key yet; `pharos key create --environment {name}` creates one.\n"
        "Applications that Pharos deploys get a key of their own.\n"
    )
    assert (created["name"], created["order"], created["branch"]) == ("Test [red] Öst", 7, None)
    shown = run_text(
        pharos,
        *("environment", "set", name, "--name", "Live", "--branch", "live", "--deploy-approval", "on"),
        *("--window", "mon-thu 09:00-16:00 Europe/Oslo", "--order", "2", "--wake-on-request", "on"),
    )
    for part in (
        "Live\n",
        f"{created['id']} (number {created['number']})",
        f"path         {name}\n",
        "development, order 2",
        "wakes        at the first request\n",
        "branch       live\n",
        "mon,tue,wed,thu 09:00-16:00 Europe/Oslo",
        "deploys wait for a second person",
        "lock         none",
        "live         nothing",
        "waiting      nothing",
    ):
        assert part in shown, part
    done = run_text(pharos, "environment", "scale", str(created["number"]), "3")
    assert done == f"{name} will have 3 replicas.\n"
    assert run_text(pharos, "environment", "hibernate", created["id"]) == f"{name} will hibernate.\n"
    one = run_json(pharos, "environment", "show", name)
    assert (one["state"], one["desired_replicas"], one["approval"]["deploys"]) == ("hibernated", 3, True)
    assert run_text(pharos, "environment", "wake", created["id"]) == f"{name} will run.\n"
    table = run_text(pharos, "environment", "list")
    assert name in table and max(len(line) for line in table.splitlines()) <= 80


def test_lowering_a_gate_names_the_way_for_two_people(pharos: RunCommand) -> None:
    _, name = _add(pharos)
    changed = run_json(pharos, "environment", "set", name, "--variable-approval", "on", "--branch", "x")
    assert changed["approval"] == {"deploys": False, "variables": True}
    assert run_json(pharos, "environment", "set", name, "--no-branch")["branch"] is None
    for command in (("set", name, "--variable-approval", "off"), ("remove", name, "--yes")):
        line = expect_refusal(pharos, "environment", *command)
        assert line.startswith(f"{name.partition('/')[2]} requires a second person, and this would remove ")
        assert line.endswith("`pharos config apply FILE` makes the review of a changed one.")


def test_an_environment_is_locked_and_unlocked(pharos: RunCommand) -> None:
    _, name = _add(pharos)
    assert run_text(pharos, "unlock", name) == f"{name} was not locked.\n"
    assert run_text(pharos, "lock", name, "--reason", "sale [red]") == f"{name} is locked: sale [red]\n"
    line = expect_refusal(pharos, "lock", name, "--reason", "mine")
    assert line.startswith("The environment is locked already, by owner@localhost since ")
    assert line.endswith(f": sale [red]; `pharos unlock {name}` removes the lock.")
    assert "locked by owner@localhost: sale [red]" in run_text(pharos, "environment", "show", name)
    assert "locked by" in run_text(pharos, "environment", "list")
    output = run_text(pharos, "unlock", name)
    assert output == f"{name} is unlocked. It was locked by owner@localhost: sale [red]\n"
    assert run_json(pharos, "unlock", name)["lock"] is None


def test_removing_asks_first_and_lists_what_was_removed(
    pharos: RunCommand, on_socket: PlatformProcess
) -> None:
    created, name = _add(pharos)
    key = run_json(pharos, "key", "create", "--environment", name)["key"]
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    sent = on_socket.request("POST", "/api/v1/ingest", body=b"{}", headers=headers)
    assert sent.status == 422
    assert expect_refusal(pharos, "environment", "remove", name) == (
        f"Without a terminal, pharos cannot ask whether to remove the environment {name} with its keys, heartbeats, "
        "queues, variables and releases: add --yes to do it."
    )
    assert run_text(pharos, "environment", "remove", name, "--yes") == (
        f"The environment {name} is removed, with 1 key, 0 heartbeats, 0 queues.\n"
        "Its deployments are still listed; telemetry stays until its retention ends.\n"
    )
    sent = on_socket.request("POST", "/api/v1/ingest", body=b"{}", headers=headers)
    assert sent.status == 401
    assert "There is no environment" in expect_refusal(pharos, "environment", "show", created["id"], status=5)


def test_impossible_requests_are_explained(pharos: RunCommand) -> None:
    for command, output, status in (
        (["create", "X", "--type", "staging", "--slug", "7"], "  slug: ", 1),
        (["create", "X", "--type", "staging", "--project", "no"], "There is no project 'no'.", 5),
        (["set", "production"], "Name a setting to change: `pharos environment set --help`", 2),
        (["set", "production", "--window", "weekdays"], "  window: is not a valid deploy window: ", 1),
        (["set", "production", "--order", "2000"], "  order: must be a whole number from 0 to 1,000", 1),
        (["scale", "production", "21"], "  replicas: must be a whole number from 1 to 20", 1),
    ):
        done = pharos("environment", *command)
        assert (done.returncode, done.stdout) == (status, "")
        assert output in done.stderr


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    """The arguments are refused before any request."""
    for arguments, output in (
        (("environment",), "the following arguments are required: VERB"),
        (("environment", "create", "X"), "the following arguments are required: --type"),
        (("environment", "create", "X", "--type", "preview"), "invalid choice: 'preview'"),
        (("environment", "scale", "x", "many"), "invalid int value: 'many'"),
        (("environment", "set", "x", "--branch", "a", "--no-branch"), "not allowed with argument"),
        (("environment", "set", "x", "--window", "a", "--no-window"), "not allowed with argument"),
        (("environment", "set", "x", "--deploy-approval", "yes"), "invalid choice: 'yes'"),
        (("environment", "remove"), "the following arguments are required: ENVIRONMENT"),
        (("lock", "x"), "the following arguments are required: --reason"),
        (("unlock",), "the following arguments are required: ENVIRONMENT"),
    ):
        done = command_runner(tmp_path)(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert output in done.stderr
