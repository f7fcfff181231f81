"""`pharos account`, `person`, `token`, `project` and `audit` on both kinds of installation: a running `pharos up`, and
the engines of separate processes."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from control_domain.accounts.roles import SCOPES
from pipeline_contracts.credentials import CredentialKind, is_well_formed
from tests.support import fork_server
from tests.support.commands import RunCommand, command_runner, expect_refusal, run_json, run_text
from tests.support.platform_process import PHAROS, PlatformProcess


def add_account(pharos: RunCommand, slug: str) -> dict[str, Any]:
    """Create an account with an owner, whose address contains the slug."""
    owner = ("--owner-name", "Olga [red]", "--owner-email", f"Owner@{slug}.example")
    created: dict[str, Any] = run_json(pharos, "account", "create", slug.title(), *owner)
    return created


def read_account(platform: PlatformProcess, token: str) -> tuple[int, Any]:
    answer = platform.request("GET", "/api/v1/account", headers={"Authorization": f"Bearer {token}"})
    return answer.status, answer.json


def test_an_account_is_shown_with_its_people_and_projects(pharos: RunCommand) -> None:
    created = add_account(pharos, "beta")
    shown = [
        run_json(pharos, "account", "show", name) for name in ("beta", created["id"], str(created["number"]))
    ]
    assert shown[0] == shown[1] == shown[2] and shown[0]["id"] == created["id"]
    output = run_text(pharos, "account", "show", "beta")
    for part in ("Beta", created["id"], "5,000 events/s, 50,000 at once", "none yet", "owner@beta.example"):
        assert part in output, part


def test_people_are_added_listed_changed_and_removed(pharos: RunCommand) -> None:
    add_account(pharos, "staff")
    account = ("--account", "staff")
    output = run_text(pharos, "person", "add", "Eve@staff.example", "--name", "Eve [red]", *account)
    assert output == "eve@staff.example is member of the account staff.\n"
    output = run_text(pharos, "person", "set-role", "eve@STAFF.example", "owner", *account)
    assert output == "eve@staff.example is owner of the account staff.\n"
    output = run_text(pharos, "person", "list", *account)
    assert [line.split()[-2:] for line in output.splitlines()[1:]] == [["owner", "staff"], ["owner", "staff"]]
    assert "Olga [red]" in output and "Eve [red]" in output
    assert len(run_json(pharos, "person", "list", *account)) == 2
    run_text(pharos, "project", "create", "Shop", "--slug", "staff-shop", *account)
    run_text(pharos, "project", "grant", "staff-shop", "eve@staff.example", "--role", "viewer")
    run_text(pharos, "token", "create", "--person", "eve@staff.example", *account, "--scope", "deploy:read")
    output = run_text(pharos, "person", "remove", "eve@staff.example", *account, "--yes")
    assert output == (
        "eve@staff.example is removed from the account staff; tokens revoked: 1, roles in projects removed: 1.\n"
    )
    assert expect_refusal(pharos, "person", "remove", "owner@staff.example", *account, "--yes") == (
        "owner@staff.example is the last owner of the account staff: make somebody else owner first, with "
        "`pharos person set-role`."
    )


def test_tokens_are_created_listed_and_revoked(pharos: RunCommand) -> None:
    add_account(pharos, "tokens")
    account = ("--account", "tokens")
    create = ("token", "create", "--person", "owner@tokens.example", *account)
    output = run_text(
        pharos, *create, "--scope", "account:read", "--scope", "deploy:read", "--expires", "90d"
    )
    first, secret = output.splitlines()
    assert is_well_formed(secret, CredentialKind.API_TOKEN)
    (token,) = run_json(pharos, "token", "list", *account)
    assert (token["scopes"], token["state"]) == (["account:read", "deploy:read"], "live")
    until = f"{token['expires_at'][:10]} {token['expires_at'][11:16]} UTC"
    assert first == (
        f"Token {token['id']} of owner@tokens.example for the account tokens until {until}, shown this once:"
    )
    created = run_json(pharos, *create, "--scope", "deploy:write", "account:read", "--name", "CI [red]")
    assert (created["name"], created["scopes"], created["expires_at"]) == (
        "CI [red]",
        ["account:read", "deploy:write"],
        None,
    )
    shown = run_text(pharos, "token", "list", *account)
    for part in (
        "CI [red]",
        "owner@tokens.example",
        "deploy:write",
        "live",
        f"until {token['expires_at'][:10]}",
    ):
        assert part in shown, part
    everything = shown + run_text(pharos, "audit") + json.dumps(run_json(pharos, "token", "list"))
    assert secret not in everything and created["api_token"] not in everything
    output = run_text(pharos, "token", "revoke", str(created["id"]), "--yes")
    assert output == f"Token {created['id']} of owner@tokens.example is revoked.\n"
    assert [one["state"] for one in run_json(pharos, "token", "list", *account)] == ["revoked", "live"]


def test_projects_are_created_listed_granted_and_removed(pharos: RunCommand) -> None:
    add_account(pharos, "makers")
    account = ("--account", "makers")
    output = run_text(pharos, "project", "create", "Shop [red]", *account)
    created = run_json(pharos, "project", "show", "shop-red")
    assert output == f"Project {created['number']}, {created['id']}, is shop-red of the account makers.\n"
    run_text(pharos, "person", "add", "eve@makers.example", "--name", "Eve", *account)
    output = run_text(pharos, "project", "grant", "shop-red", "eve@makers.example", "--role", "deployer")
    assert output == "eve@makers.example is deployer in the project shop-red.\n"
    output = run_text(pharos, "project", "grant", created["id"], "owner@makers.example", "--role", "viewer")
    assert "is owner of the account and may do everything in it anyway.\n" in output
    shown = run_text(pharos, "project", "show", str(created["number"]))
    for part in ("Shop [red]", created["id"], "none connected", "No environments yet.", "deployer  Eve"):
        assert part in shown, part
    output = run_text(pharos, "project", "revoke", "shop-red", "eve@makers.example")
    assert output == "eve@makers.example has no role in the project shop-red.\n"
    run_text(pharos, "project", "revoke", "shop-red", "owner@makers.example")
    assert "Nobody has a role in it" in run_text(pharos, "project", "show", "shop-red")
    assert [one["slug"] for one in run_json(pharos, "project", "list", *account)] == ["shop-red"]
    assert "Shop [red]" in run_text(pharos, "project", "list")
    output = run_text(pharos, "project", "remove", "shop-red", "--yes")
    assert output == "The project shop-red is removed; deployments removed: 0.\n"
    assert run_text(pharos, "project", "list", *account).startswith("No projects yet.")


def test_a_project_in_use_is_not_removed(pharos: RunCommand) -> None:
    """Both installations start with this project."""
    project = run_json(pharos, "project", "list")[0]
    shown = run_text(pharos, "project", "show", project["id"])
    assert project["environments"][0]["id"] in shown
    output = expect_refusal(pharos, "project", "remove", project["id"], "--yes")
    assert f"The project {project['slug']} still has the environment production" in output


def test_the_audit_log_lists_changes_by_subject(pharos: RunCommand) -> None:
    created = add_account(pharos, "audited")
    run_text(pharos, "account", "set-limit", "audited", "--rate", "3", "--burst", "4")
    (newest,) = run_json(pharos, "audit", "--limit", "1")
    assert (newest["action"], newest["subject"]) == ("account.limit", f"account {created['id']}")
    assert newest["source"].startswith("operator")
    actions = ("account.limit", "account.create")
    for subject in (created["id"], f"account {created['id']}"):
        entries = run_json(pharos, "audit", "--subject", subject)
        assert tuple(entry["action"] for entry in entries) == actions
    output = run_text(pharos, "audit", "--subject", created["id"])
    for part in (*actions, created["id"], newest["at"][:10], newest["source"], "to=(rate=3.0, burst=4)"):
        assert part in output, part
    assert run_text(pharos, "audit", "--subject", "nothing") == "The audit log has no such entry.\n"
    assert expect_refusal(pharos, "audit", "--limit", "0") == (
        "0 entries cannot be shown: ask for 1 to 1,000 with --limit."
    )


@pytest.mark.parametrize(
    "command",
    [
        ["person", "remove", "owner@kept.example", "--account", "kept"],
        ["token", "revoke", "1"],
        ["project", "remove", "1"],
    ],
    ids=" ".join,
)
def test_destructive_commands_require_confirmation(pharos: RunCommand, command: list[str]) -> None:
    """Without a terminal a yes in a pipe does not count."""
    before = run_json(pharos, "audit", "--limit", "1")
    output = expect_refusal(pharos, *command)
    assert output.startswith("Without a terminal nobody can be asked whether to ")
    assert output.endswith(": add --yes to do it.")
    assert run_json(pharos, "audit", "--limit", "1") == before


def test_a_person_at_a_terminal_is_asked_to_confirm(on_socket: PlatformProcess) -> None:
    for typed, status, output in (("no", 1, "Nothing was changed."), ("yes", 0, "")):
        run_text(on_socket.run, "project", "create", f"Asked {typed}", "--account", "1")
        command = ["project", "remove", f"asked-{typed}", "--data", str(on_socket.data)]
        ours, theirs = os.openpty()
        try:
            os.write(ours, f"{typed}\n".encode())
            done = fork_server.run(
                [str(PHAROS), *command], stdin=theirs, capture_output=True, text=True, timeout=180
            )
        finally:
            os.close(ours)
            os.close(theirs)
        asked, _, answer = done.stderr.partition("Type yes to go on: ")
        assert asked == (
            f"This will remove project asked-{typed} with its deployments, their logs, its repositories and roles. "
        )
        assert (done.returncode, answer.strip()) == (status, output)
        here = f"asked-{typed}" in {one["slug"] for one in run_json(on_socket.run, "project", "list")}
        assert here == (status == 1)


@pytest.mark.parametrize(
    ("command", "output"),
    [
        (["account", "show", "nobody"], "There is no account nobody; `pharos account list` shows all."),
        (
            ["person", "set-role", "nobody@b.example", "admin", "--account", "1"],
            "There is no person 'nobody@b.example'; `pharos person list` shows all.",
        ),
        (
            ["token", "create", "--person", "a@b", "--account", "1", "--scope", "everything"],
            "'everything' is no scope: choose from account:read, analytics:read, deploy:read, deploy:write.",
        ),
        (["token", "revoke", "9999", "--yes"], "There is no token 9999: `pharos token list` shows all."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_impossible_requests_fail_with_one_sentence(
    pharos: RunCommand, command: list[str], output: str
) -> None:
    assert expect_refusal(pharos, *command) == output


def test_duplicate_names_are_refused(pharos: RunCommand) -> None:
    add_account(pharos, "twice")
    run_text(pharos, "project", "create", "Twice", "--account", "twice")
    assert expect_refusal(pharos, "project", "create", "Twice", "--account", "twice") == (
        "The account has a project of the slug 'twice' already: choose another with --slug."
    )


def test_a_token_opens_the_api_until_it_is_revoked(on_socket: PlatformProcess) -> None:
    add_account(on_socket.run, "opened")
    created = run_json(
        on_socket.run,
        *("token", "create", "--person", "owner@opened.example", "--account", "opened", "--scope", *SCOPES),
    )
    status, body = read_account(on_socket, created["api_token"])
    assert (status, body["data"]["slug"]) == (200, "opened")
    (token,) = run_json(on_socket.run, "token", "list", "--account", "opened")
    assert token["last_used_at"] is not None
    run_text(on_socket.run, "token", "revoke", str(created["id"]), "--yes")
    assert read_account(on_socket, created["api_token"])[0] == 401


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    """The arguments are refused before any request."""
    for arguments, output in (
        (("person", "add", "a@b", "--role", "boss"), "invalid choice: 'boss'"),
        (("person", "set-role", "a@b"), "the following arguments are required: ROLE"),
        (("token", "create", "--person", "a@b"), "--scope is required, unless --local is given"),
        (("token", "create", "--person", "a@b", "--scope", "x", "--expires", "1w"), "'1w' is no duration"),
        (("token", "revoke", "first"), "invalid int value: 'first'"),
        (("project", "grant", "1", "a@b"), "the following arguments are required: --role"),
        (("project",), "the following arguments are required: VERB"),
        (("audit", "--limit", "all"), "invalid int value: 'all'"),
    ):
        done = command_runner(tmp_path)(*arguments)
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert output in done.stderr


def test_the_help_names_every_scope_and_action(tmp_path: Path) -> None:
    run = command_runner(tmp_path)
    output = " ".join(run_text(run, "token", "create", "--help").split())
    assert ", ".join(SCOPES) in output
    listed = run_text(run, "--help")
    for name in ("account", "person", "token", "project", "audit"):
        assert f"\n  {name} " in listed
        assert "the installation of PHAROS_DATABASE_URL" in " ".join(run_text(run, name, "--help").split())
