"""`pharos deployments`, `approvals`, `approve`, `reject` and `cancel` on both kinds of installation."""

import asyncio
import json
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from control_domain.accounts.members import resolve_person
from control_domain.audit import Actor
from control_domain.database.engine import open_engine, open_sessions
from control_domain.deployments.queue_deployment import DeploymentRequest, queue_deployment
from control_domain.projects.resolve import resolve_target
from tests.support.commands import RunCommand, command_runner, expect_refusal, run_json, run_text
from tests.support.platform_process import PlatformProcess

REVISION = "0123456789abcdef0123456789abcdef01234567"
ASKER, MAINTAINER = "asker@deploys.example", "maintainer@deploys.example"
Deploy = Callable[[str], int]


@pytest.fixture
def environment_path(pharos: RunCommand) -> str:
    """A new environment in a project with a repository and two people."""
    slug = f"deploys-{uuid.uuid4().hex[:8]}"
    run_json(pharos, "project", "create", slug)
    run_json(pharos, "environment", "create", "Live", "--type", "production", "--project", slug)
    run_json(pharos, "repository", "connect", "/srv/shop.git", "--project", slug)
    people = {person["email"] for person in run_json(pharos, "person", "list")}
    for email, role in ((ASKER, "deployer"), (MAINTAINER, "maintainer")):
        if email not in people:
            run_json(pharos, "person", "add", email, "--name", email.partition("@")[0].title())
        run_json(pharos, "project", "grant", slug, email, "--role", role)
    run_json(pharos, "environment", "set", f"{slug}/live", "--deploy-approval", "on")
    return f"{slug}/live"


@pytest.fixture
def deploy(request: pytest.FixtureRequest, pharos: RunCommand, environment_path: str) -> Deploy:
    """Return a function that requests a deployment of a branch: over the API, or like the API where none runs."""
    if request.node.callspec.params["pharos"] == "engines":
        url: str = request.getfixturevalue("own_database_url")
        return lambda ref: asyncio.run(_queue(url, environment_path, ref))
    platform: PlatformProcess = request.getfixturevalue("on_socket")
    token = run_json(pharos, "token", "create", "--person", ASKER, "--scope", "deploy:write")["api_token"]
    environment = run_json(pharos, "environment", "show", environment_path)["id"]

    def post(ref: str) -> int:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        body = json.dumps({"ref": ref}).encode()
        path = f"/api/v1/environments/{environment}/deploy"
        answer = platform.request("POST", path, body=body, headers=headers)
        assert answer.status == 202, answer
        number: int = answer.json["data"]["id"]
        return number

    return post


async def _queue(url: str, environment_path: str, ref: str) -> int:
    engine = open_engine(url)
    async with open_sessions(engine)() as session, session.begin():
        actor = Actor("127.0.0.1", (await resolve_person(session, ASKER)).id)
        found = await resolve_target(session, environment_path)
        number = (
            await queue_deployment(
                session, found, DeploymentRequest("api", ref=ref), actor, datetime.now(UTC)
            )
        ).id
    await engine.dispose()
    return number


def _waiting(pharos: RunCommand, environment_path: str) -> list[int]:
    project = environment_path.partition("/")[0]
    return [one["id"] for one in run_json(pharos, "approvals")["deployments"] if one["project"] == project]


def _row(table: str, number: int) -> list[str]:
    """Return the columns of the line that starts with this number."""
    (line,) = [line for line in table.splitlines() if line.split(" ")[0] == str(number)]
    return line.split()


def test_a_waiting_deployment_is_approved(pharos: RunCommand, environment_path: str, deploy: Deploy) -> None:
    number = deploy("main")
    assert _waiting(pharos, environment_path) == [number]
    table = run_text(pharos, "approvals")
    assert "api" in _row(table, number) and "main" in _row(table, number)
    line = expect_refusal(pharos, "approve", "deployment", str(number), "--by", MAINTAINER)
    assert line.startswith("The commit of main ") and "--revision" in line
    line = expect_refusal(pharos, "approve", "deployment", str(number), "--by", ASKER, "--revision", REVISION)
    assert line.startswith(f"{ASKER} may not decide what waits in the project")
    output = run_text(
        pharos, "approve", "deployment", str(number), "--by", MAINTAINER, "--revision", REVISION
    )
    assert output.startswith(f"Deployment {number} is approved and queued: commit {REVISION}.\n")
    assert "  variables: none\n  workflow: pharos.yaml of the commit\n  digest: " in output
    assert _waiting(pharos, environment_path) == []
    line = expect_refusal(pharos, "approve", "deployment", str(number), "--by", MAINTAINER)
    assert line.endswith("only one that waits can be approved; `pharos approvals` shows those that do.")


@pytest.mark.parametrize("pharos", ["engines"], indirect=True)
def test_an_approved_deployment_is_queued(pharos: RunCommand, environment_path: str, deploy: Deploy) -> None:
    """A `pharos up` would start the deployment at once; on engines no deployer runs."""
    number = deploy("main")
    run_text(pharos, "approve", "deployment", str(number), "--by", MAINTAINER, "--revision", REVISION)
    line = expect_refusal(pharos, "approve", "deployment", str(number), "--by", MAINTAINER)
    assert line.startswith(f"Deployment {number} is queued: only one that waits can be approved;")
    assert run_json(pharos, "environment", "show", environment_path)["active_deployment"] == {
        "id": number,
        "status": "queued",
    }
    agreed = ("--by", ASKER, "--approved-by", MAINTAINER)
    line = expect_refusal(pharos, "environment", "remove", environment_path, "--yes", *agreed)
    assert line.endswith("wait until it is finished, or cancel it.")
    line = expect_refusal(pharos, "cancel", str(number))
    assert line.startswith(f"Without a terminal nobody can be asked whether to cancel deployment {number}:")
    assert run_text(pharos, "cancel", str(number), "--yes") == f"Deployment {number} is canceled.\n"
    assert "is canceled: only what is queued" in expect_refusal(pharos, "cancel", str(number), "--yes")


def test_a_waiting_deployment_is_rejected(pharos: RunCommand, environment_path: str, deploy: Deploy) -> None:
    number = deploy("main")
    decided = ("deployment", str(number), "--by", MAINTAINER, "--reason", "wrong branch")
    assert run_text(pharos, "reject", *decided) == f"Deployment {number} is rejected.\n"
    assert "is rejected: only one that waits can be rejected" in expect_refusal(pharos, "reject", *decided)
    entry = run_json(pharos, "audit", "--limit", "1")[0]
    assert (entry["action"], entry["person"]) == ("deployment.reject", MAINTAINER)
    assert entry["source"].startswith("operator ")


def test_the_newest_deployments_are_listed(pharos: RunCommand, environment_path: str, deploy: Deploy) -> None:
    numbers = [deploy("main"), deploy(REVISION)]
    project = environment_path.partition("/")[0]
    listed = run_json(pharos, "deployments", "--environment", environment_path)
    assert [one["id"] for one in listed] == numbers[::-1]
    assert listed == run_json(pharos, "deployments", "--project", project)
    assert [one["id"] for one in run_json(pharos, "deployments", "--limit", "1")] == numbers[1:]
    newest = listed[0]
    assert (newest["status"], newest["trigger"], newest["asked_by"]) == ("awaiting_approval", "api", ASKER)
    table = run_text(pharos, "deployments", "--project", project)
    assert REVISION[:12] in _row(table, numbers[1])
    assert "main" in _row(table, numbers[0]) and "awaiting" in _row(table, numbers[0])


@pytest.mark.parametrize(
    ("command", "output"),
    [
        (
            ["approve", "deployment", "9999", "--by", "a@b"],
            "There is no deployment 9999; `pharos deployments`",
        ),
        (
            ["approve", "deployment", "1", "--by", "a@b", "--revision", "main"],
            "A revision is a whole commit of 40",
        ),
        (
            ["approve", "variables", "9999", "--by", "a@b"],
            "There is no change 9999 of variables; `pharos approvals`",
        ),
        (
            ["reject", "variables", "9999", "--by", "a@b", "--reason", "no"],
            "There is no change 9999 of variables",
        ),
        (
            ["reject", "deployment", "1", "--by", "a@b", "--reason", " "],
            "A reason has 1 to 500 printable characters",
        ),
        (["cancel", "9999", "--yes"], "There is no deployment 9999; `pharos deployments` shows the newest."),
        (["deployments", "--environment", "nowhere"], "There is no environment nowhere;"),
        (["deployments", "--project", "nowhere"], "There is no project nowhere;"),
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
        (("approve",), "the following arguments are required: WHAT"),
        (("approve", "person"), "invalid choice: 'person'"),
        (("approve", "deployment", "1"), "the following arguments are required: --by"),
        (("reject", "deployment", "1", "--by", "a@b"), "the following arguments are required: --reason"),
        (("reject", "variables", "x", "--by", "a@b", "--reason", "no"), "invalid int value: 'x'"),
        (("cancel",), "the following arguments are required: DEPLOYMENT"),
        (("deployments", "--limit", "0"), "0 is not between 1 and 1000"),
        (("deployments", "--limit", "many"), "many is not between 1 and 1000"),
    ):
        done = command_runner(tmp_path)(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert output in done.stderr
