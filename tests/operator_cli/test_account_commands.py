"""`pharos account`, `person`, `token`, `project` and `audit` on both kinds of installation: a running `pharos up`, and
the engines of parts that are processes of their own."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from control_domain.accounts.operations import SCOPES
from pipeline_contracts.credentials import CredentialKind, digest_credential, is_well_formed
from pipeline_contracts.rate_limits import RateLimit
from storage_backends.key_directory.redis import open_redis_key_directory
from tests.support import fork_server
from tests.support.commands import Run, ask, refused, run_in, tell
from tests.support.platform_process import PHAROS, PlatformProcess


def add_account(pharos: Run, slug: str) -> dict[str, Any]:
    """With its owner, whose address is of the account."""
    owner = ("--owner-name", "Olga [red]", "--owner-email", f"Owner@{slug}.example")
    made: dict[str, Any] = ask(pharos, "account", "create", slug.title(), *owner)
    return made


def read_account(platform: PlatformProcess, token: str) -> tuple[int, Any]:
    answer = platform.request("GET", "/api/v1/account", headers={"Authorization": f"Bearer {token}"})
    return answer.status, answer.json


def test_an_account_through_its_commands(pharos: Run) -> None:
    told = tell(
        pharos, "account", "create", "Beta [red] Ltd", "--owner-name", "Ada", "--owner-email", "ADA@b.example"
    )
    assert told.splitlines()[0].endswith("is beta-red-ltd; its owner is ada@b.example. To go on:")
    assert "pharos project create NAME --account beta-red-ltd" in told
    made = ask(pharos, "account", "show", "beta-red-ltd")
    number = str(made["number"])
    assert made["id"] in told and f"Account {number}," in told
    assert [ask(pharos, "account", "show", called) for called in (made["id"], number)] == [made, made]
    told = tell(pharos, "account", "set-limit", "beta-red-ltd", "--rate", "1500000", "--burst", "70")
    assert told == "The account beta-red-ltd may send 1,500,000 events a second, 70 at once.\n"
    told = tell(pharos, "account", "set-limit", number, "--rate", "0.5", "--burst", "4000000")
    assert told == "The account beta-red-ltd may send 0.5 events a second, 4,000,000 at once.\n"
    shown = tell(pharos, "account", "show", "beta-red-ltd")
    for part in (
        "Beta [red] Ltd",
        made["id"],
        "0.5 events/s, 4,000,000 at once",
        "none yet",
        "ada@b.example",
    ):
        assert part in shown, part
    (line,) = [line for line in tell(pharos, "account", "list").splitlines() if "beta-red-ltd" in line]
    assert line.split()[-4:] == ["0.5", "4,000,000", "1", "0"]
    assert {one["slug"] for one in ask(pharos, "account", "list")} >= {"beta-red-ltd"}


def test_people_through_their_commands(pharos: Run) -> None:
    add_account(pharos, "staff")
    account = ("--account", "staff")
    told = tell(pharos, "person", "add", "Eve@staff.example", "--name", "Eve [red]", *account)
    assert told == "eve@staff.example is member of the account staff.\n"
    told = tell(pharos, "person", "set-role", "eve@STAFF.example", "owner", *account)
    assert told == "eve@staff.example is owner of the account staff.\n"
    told = tell(pharos, "person", "list", *account)
    assert [line.split()[-2:] for line in told.splitlines()[1:]] == [["owner", "staff"], ["owner", "staff"]]
    assert "Olga [red]" in told and "Eve [red]" in told
    assert len(ask(pharos, "person", "list", *account)) == 2
    tell(pharos, "project", "create", "Shop", "--slug", "staff-shop", *account)
    tell(pharos, "project", "grant", "staff-shop", "eve@staff.example", "--role", "viewer")
    tell(pharos, "token", "create", "--person", "eve@staff.example", *account, "--scope", "deploy:read")
    told = tell(pharos, "person", "remove", "eve@staff.example", *account, "--yes")
    assert told == (
        "eve@staff.example is out of the account staff; tokens revoked: 1, roles in projects removed: 1.\n"
    )
    assert refused(pharos, "person", "remove", "owner@staff.example", *account, "--yes") == (
        "owner@staff.example is the last owner of the account staff: make somebody else owner first, with "
        "`pharos person set-role`."
    )


def test_a_token_through_its_commands(pharos: Run) -> None:
    add_account(pharos, "tokens")
    account = ("--account", "tokens")
    create = ("token", "create", "--person", "owner@tokens.example", *account)
    told = tell(pharos, *create, "--scope", "account:read", "--scope", "deploy:read", "--expires", "90d")
    first, secret = told.splitlines()
    assert is_well_formed(secret, CredentialKind.API_TOKEN)
    (token,) = ask(pharos, "token", "list", *account)
    assert (token["scopes"], token["state"]) == (["account:read", "deploy:read"], "live")
    until = f"{token['expires_at'][:10]} {token['expires_at'][11:16]} UTC"
    assert first == (
        f"Token {token['id']} of owner@tokens.example for the account tokens until {until}, shown this once:"
    )
    made = ask(pharos, *create, "--scope", "deploy:write", "account:read", "--name", "CI [red]")
    assert (made["name"], made["scopes"], made["expires_at"]) == (
        "CI [red]",
        ["account:read", "deploy:write"],
        None,
    )
    shown = tell(pharos, "token", "list", *account)
    for part in (
        "CI [red]",
        "owner@tokens.example",
        "deploy:write",
        "live",
        f"until {token['expires_at'][:10]}",
    ):
        assert part in shown, part
    everything = shown + tell(pharos, "audit") + json.dumps(ask(pharos, "token", "list"))
    assert secret not in everything and made["api_token"] not in everything
    told = tell(pharos, "token", "revoke", str(made["id"]), "--yes")
    assert told == f"Token {made['id']} of owner@tokens.example is revoked.\n"
    assert [one["state"] for one in ask(pharos, "token", "list", *account)] == ["revoked", "live"]


def test_a_project_through_its_commands(pharos: Run) -> None:
    add_account(pharos, "makers")
    account = ("--account", "makers")
    told = tell(pharos, "project", "create", "Shop [red]", *account)
    made = ask(pharos, "project", "show", "shop-red")
    assert told == f"Project {made['number']}, {made['id']}, is shop-red of the account makers.\n"
    tell(pharos, "person", "add", "eve@makers.example", "--name", "Eve", *account)
    told = tell(pharos, "project", "grant", "shop-red", "eve@makers.example", "--role", "deployer")
    assert told == "eve@makers.example is deployer in the project shop-red.\n"
    told = tell(pharos, "project", "grant", made["id"], "owner@makers.example", "--role", "viewer")
    assert "is owner of the account and may do everything in it anyway.\n" in told
    shown = tell(pharos, "project", "show", str(made["number"]))
    for part in ("Shop [red]", made["id"], "none connected", "No environments yet.", "deployer  Eve"):
        assert part in shown, part
    told = tell(pharos, "project", "revoke", "shop-red", "eve@makers.example")
    assert told == "eve@makers.example has no role in the project shop-red.\n"
    tell(pharos, "project", "revoke", "shop-red", "owner@makers.example")
    assert "Nobody has a role in it" in tell(pharos, "project", "show", "shop-red")
    assert [one["slug"] for one in ask(pharos, "project", "list", *account)] == ["shop-red"]
    assert "Shop [red]" in tell(pharos, "project", "list")
    told = tell(pharos, "project", "remove", "shop-red", "--yes")
    assert told == "The project shop-red is removed; deployments removed: 0.\n"
    assert tell(pharos, "project", "list", *account).startswith("No projects yet.")


def test_a_project_that_is_used_is_shown_and_stays(pharos: Run) -> None:
    """The one that both installations begin with."""
    project = ask(pharos, "project", "list")[0]
    shown = tell(pharos, "project", "show", project["id"])
    assert project["environments"][0]["id"] in shown
    told = refused(pharos, "project", "remove", project["id"], "--yes")
    assert f"The project {project['slug']} still has the environment production" in told


def test_the_audit_log_through_its_command(pharos: Run) -> None:
    made = add_account(pharos, "audited")
    tell(pharos, "account", "set-limit", "audited", "--rate", "3", "--burst", "4")
    (newest,) = ask(pharos, "audit", "--limit", "1")
    assert (newest["action"], newest["subject"]) == ("account.limit", f"account {made['id']}")
    assert newest["source"].startswith("operator")
    actions = ("account.limit", "account.create")
    for subject in (made["id"], f"account {made['id']}"):
        entries = ask(pharos, "audit", "--subject", subject)
        assert tuple(entry["action"] for entry in entries) == actions
    told = tell(pharos, "audit", "--subject", made["id"])
    for part in (*actions, made["id"], newest["at"][:10], newest["source"], "to=(rate=3.0, burst=4)"):
        assert part in told, part
    assert tell(pharos, "audit", "--subject", "nothing") == "The audit log has no such entry.\n"
    assert refused(pharos, "audit", "--limit", "0") == (
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
def test_nothing_is_destroyed_unasked(pharos: Run, command: list[str]) -> None:
    """Without a terminal: a yes in a pipe is none."""
    before = ask(pharos, "audit", "--limit", "1")
    told = refused(pharos, *command)
    assert told.startswith("Without a terminal nobody can be asked whether to ")
    assert told.endswith(": add --yes to do it.")
    assert ask(pharos, "audit", "--limit", "1") == before


def test_somebody_at_a_terminal_is_asked(on_socket: PlatformProcess) -> None:
    for typed, status, told in (("no", 1, "Nothing was changed."), ("yes", 0, "")):
        tell(on_socket.run, "project", "create", f"Asked {typed}", "--account", "1")
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
        assert (done.returncode, answer.strip()) == (status, told)
        here = f"asked-{typed}" in {one["slug"] for one in ask(on_socket.run, "project", "list")}
        assert here == (status == 1)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (
            ["account", "create", "日本", "--owner-name", "A", "--owner-email", "a@b"],
            "No slug can be made from '日本': give one of 1 to 60 of a-z, 0-9 and single hyphens, with a letter, like "
            "--slug my-shop.",
        ),
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
def test_what_cannot_be_is_one_sentence(pharos: Run, command: list[str], told: str) -> None:
    assert refused(pharos, *command) == told


def test_a_name_twice(pharos: Run) -> None:
    add_account(pharos, "twice")
    owner = ("--owner-name", "A", "--owner-email", "a@twice.example")
    assert refused(pharos, "account", "create", "Twice", *owner) == (
        "There is an account of the slug 'twice' already: choose another with --slug."
    )
    tell(pharos, "project", "create", "Twice", "--account", "twice")
    assert refused(pharos, "project", "create", "Twice", "--account", "twice") == (
        "The account has a project of the slug 'twice' already: choose another with --slug."
    )


def test_a_token_opens_the_api_until_it_is_revoked(on_socket: PlatformProcess) -> None:
    add_account(on_socket.run, "opened")
    made = ask(
        on_socket.run,
        *("token", "create", "--person", "owner@opened.example", "--account", "opened", "--scope", *SCOPES),
    )
    status, body = read_account(on_socket, made["api_token"])
    assert (status, body["data"]["slug"]) == (200, "opened")
    (token,) = ask(on_socket.run, "token", "list", "--account", "opened")
    assert token["last_used_at"] is not None
    tell(on_socket.run, "token", "revoke", str(made["id"]), "--yes")
    assert read_account(on_socket, made["api_token"])[0] == 401


async def test_a_limit_is_at_the_edges_at_once(on_engines: Run, own_redis_url: str) -> None:
    """In Redis, for the keys that there were before."""
    made = ask(on_engines, "keys", "create")
    tell(on_engines, "account", "set-limit", "acme", "--rate", "77", "--burst", "88")
    directory = await open_redis_key_directory(own_redis_url, follow=False)
    entry = await directory.find(digest_credential(made["ingest_key"]))
    await directory.close()
    assert entry is not None and entry.limit == RateLimit(77, 88)


def test_arguments_that_are_wrong(tmp_path: Path) -> None:
    """Refused before anything is asked."""
    for arguments, told in (
        (("account", "create", "Beta"), "the following arguments are required: --owner-name, --owner-email"),
        (("account", "set-limit", "1", "--rate", "fast", "--burst", "1"), "invalid float value: 'fast'"),
        (("person", "add", "a@b", "--role", "boss"), "invalid choice: 'boss'"),
        (("person", "set-role", "a@b"), "the following arguments are required: ROLE"),
        (("token", "create", "--person", "a@b"), "the following arguments are required: --scope"),
        (("token", "create", "--person", "a@b", "--scope", "x", "--expires", "1w"), "'1w' is no duration"),
        (("token", "revoke", "first"), "invalid int value: 'first'"),
        (("project", "grant", "1", "a@b"), "the following arguments are required: --role"),
        (("project",), "the following arguments are required: ACTION"),
        (("audit", "--limit", "all"), "invalid int value: 'all'"),
    ):
        done = run_in(tmp_path)(*arguments)
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert told in done.stderr


def test_the_help_names_every_scope_and_action(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    told = " ".join(tell(run, "token", "create", "--help").split())
    assert ", ".join(SCOPES) in told
    listed = tell(run, "--help")
    for name in ("account", "person", "token", "project", "audit"):
        assert f"    {name} " in listed
        assert "With PHAROS_DATABASE_URL" in " ".join(tell(run, name, "--help").split())
