"""`pharos project` on a running `pharos up`."""

import os
import uuid
from pathlib import Path

import pytest

from tests.support import fork_server
from tests.support.commands import RunCommand, expect_refusal, run_json, run_text
from tests.support.platform_process import PHAROS, PlatformProcess
from tests.support.second_person import as_new_person


@pytest.fixture
def slug() -> str:
    """The slug of a project that does not exist: the tests of this file share their installation."""
    return f"p-{uuid.uuid4().hex[:8]}"


def test_projects_are_created_listed_renamed_and_removed(pharos: RunCommand, slug: str) -> None:
    output = run_text(pharos, "project", "create", "Shop [red]", "--slug", slug)
    created = run_json(pharos, "project", "show", slug)
    assert output == (
        f"Project {slug} is created: {created['id']}. `pharos environment create NAME --project {slug}` gives it an "
        "environment.\n"
    )
    message = expect_refusal(pharos, "project", "create", "Other", "--slug", slug)
    assert message == f"The account has a project with the slug {slug} already."
    assert (
        run_text(pharos, "project", "rename", slug, "Store [red]") == f"{slug} is called Store [red] now.\n"
    )
    (line,) = [line for line in run_text(pharos, "project", "list").splitlines() if line.startswith(slug)]
    assert "Store [red]" in line and "none yet" in line
    shown = run_text(pharos, "project", "show", created["id"])
    for part in ("Store [red]", created["id"], "none connected", "No environments yet.", "Nobody has a role"):
        assert part in shown, part
    output = run_text(pharos, "project", "remove", slug, "--yes")
    assert output == f"The project {slug} is removed; deployments removed: 0.\n"
    assert slug not in {project["slug"] for project in run_json(pharos, "project", "list")}


def test_roles_are_granted_and_revoked(
    pharos: RunCommand, on_socket: PlatformProcess, slug: str, tmp_path: Path
) -> None:
    run_text(pharos, "project", "create", "Shop", "--slug", slug)
    email = f"{slug}@members.example"
    member = as_new_person(on_socket, tmp_path, email)
    assert run_json(member, "project", "list") == []
    output = run_text(pharos, "project", "grant", slug, email.upper(), "--role", "deployer")
    assert output == f"{email} is deployer in the project {slug}.\n"
    assert [project["slug"] for project in run_json(member, "project", "list")] == [slug]
    output = run_text(pharos, "project", "grant", slug, "owner@localhost", "--role", "viewer")
    assert output.endswith("owner@localhost is owner of the account and may do everything in it anyway.\n")
    shown = run_text(pharos, "project", "members", slug)
    assert {tuple(line.split()[:3]) for line in shown.splitlines()[1:]} >= {("deployer", "Second", "member")}
    output = run_text(pharos, "project", "revoke", slug, email)
    assert output == f"{email} has no role in the project {slug}.\n"
    message = expect_refusal(member, "project", "rename", slug, "Mine", status=5)
    assert message.startswith("There is no project")


def test_a_project_in_use_is_not_removed(pharos: RunCommand) -> None:
    output = expect_refusal(pharos, "project", "remove", "my-project", "--yes")
    assert "The project my-project still has the environment" in output


def test_a_person_at_a_terminal_is_asked_to_confirm(on_socket: PlatformProcess, slug: str) -> None:
    run_text(on_socket.run, "project", "create", "Asked", "--slug", slug)
    for typed, status, output in (("no", 1, "Nothing was changed."), ("yes", 0, "")):
        command = ["project", "remove", slug, "--data", str(on_socket.data)]
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
            f"This will remove the project {slug} with its deployments, their logs, its repositories and roles. "
        )
        assert (done.returncode, answer.strip()) == (status, output)
        remains = slug in {project["slug"] for project in run_json(on_socket.run, "project", "list")}
        assert remains == (status == 1)
