"""`pharos account`, `person`, `invitation`, `token`, `audit` and `usage` on a running `pharos up`."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from control_domain.accounts.roles import SCOPES
from pipeline_contracts.credentials import CredentialKind, is_well_formed
from tests.support.commands import (
    CLEAN_ENVIRONMENT,
    RunCommand,
    command_runner,
    expect_refusal,
    run_json,
    run_text,
)
from tests.support.platform_process import PlatformProcess
from tests.support.second_person import as_new_person


def test_the_account_is_shown_and_renamed(pharos: RunCommand) -> None:
    assert run_text(pharos, "account", "rename", "Acme [red]") == (
        "The account my-account is called Acme [red] now.\n"
    )
    shown = run_json(pharos, "account", "show")
    assert [shown[name] for name in ("name", "slug")] == ["Acme [red]", "my-account"]
    output = run_text(pharos, "account", "show")
    for part in (
        "Acme [red]",
        shown["id"],
        "5,000 events/s, 50,000 at once",
        "my-project",
        "owner@localhost",
    ):
        assert part in output, part


def test_an_invited_person_joins_and_is_removed(
    pharos: RunCommand, on_socket: PlatformProcess, tmp_path: Path
) -> None:
    output = run_text(pharos, "person", "invite", "Eve@new.example", "--project", "my-project=deployer")
    command, secret = [line.strip() for line in output.splitlines() if line.startswith("  ")]
    assert output.startswith("eve@new.example is invited until ")
    assert ", as member of the account and deployer of my-project.\n" in output
    url = on_socket.credentials["base_url"].removesuffix("/api")
    assert command == f"pharos login {url} --invitation --name 'YOUR NAME'"
    assert is_well_formed(secret, CredentialKind.INVITATION)
    message = expect_refusal(pharos, "person", "invite", "eve@new.example")
    assert message.startswith("eve@new.example is invited already")

    # On the invited person's own machine.
    eve = command_runner(tmp_path, {**CLEAN_ENVIRONMENT, "XDG_CONFIG_HOME": str(tmp_path)})
    login = ("login", url, "--invitation")
    nameless = eve(*login, stdin=secret)
    assert (nameless.returncode, nameless.stderr) == (
        2,
        "pharos: You have no account on this installation yet: give your name with --name.\n",
    )
    joined = eve(*login, "--name", "Eve [red]", stdin=secret)
    assert (joined.returncode, joined.stderr) == (0, "")
    assert joined.stdout.startswith(f"Logged in to the account my-account at {url}.")
    assert "Eve [red] <eve@new.example>" in run_text(eve, "whoami")
    assert [project["slug"] for project in run_json(eve, "project", "list")] == ["my-project"]
    used = eve(*login, "--name", "Eve", "--profile", "again", stdin=secret)
    assert (used.returncode, used.stdout) == (5, "")
    assert "was used already. Ask the person who invited you" in used.stderr
    assert expect_refusal(eve, "person", "set-role", "eve@new.example", "admin").startswith(
        "Only an owner or admin"
    )

    output = run_text(pharos, "person", "set-role", "EVE@new.example", "admin")
    assert output == "eve@new.example is admin of the account.\n"
    (line,) = [line for line in run_text(pharos, "person", "list").splitlines() if "eve@new" in line]
    assert "Eve [red]" in line and "admin" in line
    assert "may do everything in all of them, as admin" in run_text(pharos, "person", "show", "Eve [red]")
    output = run_text(pharos, "person", "remove", "eve@new.example", "--yes")
    assert output == (
        "eve@new.example is removed from the account; tokens revoked: 1, roles in projects removed: 1.\n"
    )
    assert eve("whoami").returncode == 4
    assert expect_refusal(pharos, "person", "remove", "owner@localhost", "--yes") == (
        "owner@localhost is the last owner of the account my-account. Make somebody else owner first: "
        "`pharos person set-role PERSON owner`."
    )


def test_invitations_are_listed_and_revoked(pharos: RunCommand) -> None:
    invite = ("person", "invite", "bob@new.example", "--role", "admin", "--expires", "2d")
    invited = run_json(pharos, *invite)
    expires, created = (datetime.fromisoformat(invited[name]) for name in ("expires_at", "created_at"))
    assert expires - created == timedelta(days=2)
    listed = run_text(pharos, "invitation", "list", "--state", "pending")
    for part in ("bob@new.example", "admin", f"pending until {expires:%Y-%m-%d}", "owner@localhost"):
        assert part in listed, part
    assert invited["secret"] not in listed + json.dumps(run_json(pharos, "invitation", "list"))
    output = run_text(pharos, "invitation", "revoke", "bob@new.example")
    assert output == "The invitation of bob@new.example is revoked: nobody can join with it.\n"
    message = expect_refusal(pharos, "invitation", "revoke", "bob@new.example", status=5)
    assert message.startswith("There is no pending invitation")
    again = run_json(pharos, *invite)
    assert run_json(pharos, "invitation", "revoke", str(again["id"]))["state"] == "revoked"
    assert run_text(pharos, "invitation", "list", "--state", "pending").startswith("No pending invitations.")


def test_tokens_are_created_listed_and_revoked(pharos: RunCommand, on_socket: PlatformProcess) -> None:
    create = ("token", "create")
    output = run_text(
        pharos, *create, "--scope", "account:read", "--scope", "deploy:read", "--expires", "90d"
    )
    first, secret = output.splitlines()
    assert is_well_formed(secret, CredentialKind.API_TOKEN)
    token = run_json(pharos, "token", "list")[0]
    assert (token["scopes"], token["state"]) == (["account:read", "deploy:read"], "live")
    assert token["name"] == f"made {token['created_at'][:10]}"
    until = f"{token['expires_at'][:10]} {token['expires_at'][11:16]} UTC"
    assert first == f"Token {token['id']} of owner@localhost until {until}, shown this once:"
    created = run_json(pharos, *create, "CI [red]", "--scope", "deploy:write", "account:read")
    assert [created[name] for name in ("name", "scopes", "expires_at")] == [
        "CI [red]",
        ["account:read", "deploy:write"],
        None,
    ]
    shown = run_text(pharos, "token", "list", "--person", "owner@localhost")
    for part in ("CI [red]", "owner@localhost", "deploy:write", "live", "this command", "all", "never"):
        assert part in shown, part
    everything = shown + run_text(pharos, "audit") + json.dumps(run_json(pharos, "token", "list"))
    assert secret not in everything and created["api_token"] not in everything

    def status() -> int:
        headers = {"Authorization": f"Bearer {created['api_token']}"}
        return int(on_socket.request("GET", "/api/v1/account", headers=headers).status)

    assert status() == 200
    output = run_text(pharos, "token", "revoke", "CI [red]", "--yes")
    assert output == f"Token {created['id']} of owner@localhost is revoked.\n"
    assert status() == 401
    message = expect_refusal(pharos, "token", "revoke", "CI [red]", "--yes", status=5)
    assert message.startswith("There is no live token 'CI [red]'.")


def test_the_audit_log_is_filtered(pharos: RunCommand, on_socket: PlatformProcess, tmp_path: Path) -> None:
    auditor = as_new_person(on_socket, tmp_path, "auditor@new.example", "admin")
    project = run_json(auditor, "project", "create", "Audited")
    run_text(pharos, "project", "rename", "audited", "Audited too")
    run_text(pharos, "account", "set-limit", "my-account", "--rate", "5000", "--burst", "50000")
    (newest,) = run_json(pharos, "audit", "-n", "1")
    assert newest["action"] == "account.limit" and newest["source"].startswith("operator")
    renamed = ["project.rename", "project.create"]
    for filter_, actions in (
        (("--project", "audited"), renamed),
        (("--subject", f"project {project['id']}"), renamed),
        (("--subject", project["id"], "--person", "owner@localhost"), renamed[:1]),
        (("--person", "AUDITOR@new.example"), renamed[1:]),
        (("--action", "project.rename", "--since", "1h"), renamed[:1]),
        (("--project", "audited", "--until", "2026-01-01"), []),
        (("--environment", "production", "--action", "project.rename"), []),
    ):
        assert [entry["action"] for entry in run_json(pharos, "audit", *filter_)] == actions, filter_
    output = run_text(pharos, "audit", "--project", "audited")
    for part in (
        "auditor@new.example",
        "from=Audited, to=Audited too",
        project["id"],
        f"{datetime.now(UTC):%Y-}",
    ):
        assert part in output, part
    assert "operator" in run_text(pharos, "audit", "-n", "1")
    assert run_text(pharos, "audit", "--subject", "nothing") == "The audit log has no such entry.\n"
    member = as_new_person(on_socket, tmp_path, "member@new.example")
    assert expect_refusal(member, "audit").startswith("Only an owner or admin of the account may do this")


def test_usage_counts_what_was_stored(pharos: RunCommand, on_socket: PlatformProcess, tmp_path: Path) -> None:
    nothing = run_text(pharos, "usage", "--days", "1")
    counts, line = nothing.splitlines()
    assert re.fullmatch(
        r"projects \d+, environments 1, people \d+, monitors 2, sites 1, deployments 0", counts
    )
    assert line.startswith("Nothing was stored from ")
    events = tmp_path / "events.jsonl"
    events.write_text('{"type": "log", "title": "a"}\n{"type": "log", "title": "b"}\n')
    assert pharos("send", str(events), "--wait").returncode == 0
    usage = run_json(pharos, "usage", "--days", "2")
    assert [day["events"] for day in usage["days"]] == [0, 2]
    lines = [line.split() for line in run_text(pharos, "usage", "--days", "2").splitlines()]
    today = usage["until"]
    assert ["Day", "Events", "Total"] in lines and [today, "2", "█" * 12] in lines
    assert ["my-project/production", "2", "█" * 12] in lines


@pytest.mark.parametrize(
    "command",
    [["person", "remove", "owner@localhost"], ["token", "revoke", "1"], ["project", "remove", "my-project"]],
    ids=" ".join,
)
def test_destructive_commands_require_confirmation(pharos: RunCommand, command: list[str]) -> None:
    """Without a terminal a yes in a pipe does not count."""
    before = run_json(pharos, "audit", "--limit", "1")
    output = expect_refusal(pharos, *command)
    assert output.startswith("Without a terminal, pharos cannot ask whether to re")
    assert output.endswith(": add --yes to do it.")
    assert run_json(pharos, "audit", "--limit", "1") == before


@pytest.mark.parametrize(
    ("command", "status", "output"),
    [
        (["person", "set-role", "nobody@b.example", "admin"], 5, "There is no person 'nobody@b.example'."),
        (
            ["person", "invite", "a@b.example", "--project", "nothing=viewer"],
            5,
            "There is no project 'nothing'.",
        ),
        (["invitation", "revoke", "9999"], 5, "The account has no such invitation."),
        (["token", "revoke", "9999", "--yes"], 5, "There is no such token, or it belongs to somebody else."),
        (["token", "list", "--person", "nobody@b.example"], 5, "There is no person 'nobody@b.example'."),
        (["token", "create", "--scope", "x", "--person", "a@b"], 2, "--person goes with --local only"),
        (["token", "create", "CI"], 2, "--scope is required, unless --local is given."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_impossible_requests_fail_with_one_sentence(
    pharos: RunCommand, command: list[str], status: int, output: str
) -> None:
    assert expect_refusal(pharos, *command, status=status).startswith(output)


def test_an_unknown_scope_is_named_with_all_scopes(pharos: RunCommand) -> None:
    done = pharos("token", "create", "--scope", "account:read", "everything")
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = (line for line in done.stderr.splitlines() if "scopes[1]: must be " in line)
    assert all(scope in line for scope in SCOPES)


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    """The arguments are refused before any request."""
    for arguments, output in (
        (("person", "invite", "a@b", "--role", "boss"), "invalid choice: 'boss'"),
        (("person", "invite", "a@b", "--project", "shop=king"), "'shop=king' is not PROJECT=ROLE"),
        (("person", "set-role", "a@b"), "the following arguments are required: ROLE"),
        (("token", "create", "--scope", "x", "--expires", "1w"), "'1w' is no duration"),
        (("token", "revoke"), "the following arguments are required: TOKEN"),
        (("project", "grant", "1", "a@b"), "the following arguments are required: --role"),
        (("project",), "the following arguments are required: VERB"),
        (("audit", "--limit", "all"), "all is not between 1 and 1000"),
        (("audit", "--since", "yesterday"), "'yesterday' is neither a time"),
        (("audit", "--project", "shop", "--subject", "x"), "not allowed with argument --project"),
        (("usage", "--days", "91"), "91 is not between 1 and 90"),
    ):
        done = command_runner(tmp_path)(*arguments)
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert output in done.stderr


def test_the_help_names_every_scope_and_command(tmp_path: Path) -> None:
    run = command_runner(tmp_path)
    output = " ".join(run_text(run, "token", "create", "--help").split())
    assert ", ".join(SCOPES) in output
    listed = run_text(run, "--help")
    for name in ("account", "person", "invitation", "token", "usage", "audit", "project"):
        assert f"\n  {name} " in listed
