"""`pharos deployments`, `approvals`, `approve`, `reject` and `cancel` on a running `pharos up`."""

from pathlib import Path

import pytest

from tests.support.command_deployments import make_environment
from tests.support.commands import RunCommand, command_runner, expect_refusal, run_json, run_text
from tests.support.platform_process import PlatformProcess
from tests.support.second_person import as_second_owner

REVISION = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def environment_path(pharos: RunCommand) -> str:
    """A new environment whose deploys wait for approval."""
    return make_environment(pharos, "--deploy-approval", "on")


@pytest.fixture(scope="module")
def second(on_socket: PlatformProcess, tmp_path_factory: pytest.TempPathFactory) -> RunCommand:
    """Run commands as another owner."""
    return as_second_owner(on_socket, tmp_path_factory.mktemp("second"))


def _deploy(pharos: RunCommand, environment_path: str, ref: str) -> int:
    done = pharos("deploy", environment_path, "--ref", ref, "--detach", "--quiet")
    assert (done.returncode, done.stderr) == (3, "")
    return int(done.stdout)


def _row(table: str, number: int, environment_path: str) -> list[str]:
    """Return the columns of the deployment's line; a change of variables may have the same number."""
    lines = [line.split() for line in table.splitlines()]
    (line,) = [line for line in lines if line[:1] == [str(number)] and environment_path in line]
    return line


def test_a_waiting_deployment_is_approved(
    pharos: RunCommand, second: RunCommand, environment_path: str
) -> None:
    number = _deploy(pharos, environment_path, "main")
    table = run_text(pharos, "approvals", "--wide")
    assert "main" in _row(table, number, environment_path)
    assert f"deployment {number}" in run_text(pharos, "approvals", "--quiet").splitlines()
    approve = ("approve", "deployment", str(number))
    assert expect_refusal(pharos, *approve, "--revision", REVISION) == (
        "Owner made this request: another person must decide. That person runs this command with a token of their own. "
        f"`pharos cancel {number}` cancels your own deployment."
    )
    line = expect_refusal(second, *approve)
    assert line.startswith("The commit of main ")
    assert line.endswith("`pharos approve deployment ID --revision SHA` names the commit.")
    output = run_text(second, *approve, "--revision", REVISION)
    assert output == (
        f"Deployment {number} is approved and queued: commit {REVISION}. `pharos logs -f {number}` follows it.\n"
    )
    assert f"deployment {number}" not in run_text(pharos, "approvals", "--quiet").splitlines()
    assert "only a deployment that waits for approval can be approved" in expect_refusal(second, *approve)


def test_a_changed_deployment_is_approved_with_its_digest(
    pharos: RunCommand, second: RunCommand, environment_path: str
) -> None:
    number = _deploy(pharos, environment_path, REVISION)
    run_text(pharos, "variables", "set", environment_path, "A=1")
    approve = ("approve", "deployment", str(number), "--revision", REVISION)
    assert "`pharos approvals` shows them and their digest" in expect_refusal(second, *approve)
    assert "changed since the request: variables: approve it with --digest" in run_text(second, "approvals")


def test_a_waiting_deployment_is_rejected_or_canceled(
    pharos: RunCommand, second: RunCommand, environment_path: str
) -> None:
    number, other = (_deploy(pharos, environment_path, ref) for ref in ("main", "v1"))
    rejected = ("reject", "deployment", str(number), "--reason", "wrong branch")
    assert run_text(second, *rejected) == f"Deployment {number} is rejected.\n"
    assert "is rejected: only a deployment that waits for approval can be rejected" in expect_refusal(
        second, *rejected
    )
    line = expect_refusal(pharos, "cancel", str(other))
    assert line.startswith(f"Without a terminal, pharos cannot ask whether to cancel deployment {other}:")
    assert run_text(pharos, "cancel", str(other), "--yes") == f"Deployment {other} is canceled.\n"
    assert "is canceled: only a deployment that is queued" in expect_refusal(
        pharos, "cancel", str(other), "--yes"
    )


def test_the_newest_deployments_are_listed(pharos: RunCommand, environment_path: str) -> None:
    numbers = [_deploy(pharos, environment_path, ref) for ref in ("main", REVISION)]
    project = environment_path.partition("/")[0]
    listed = run_json(pharos, "deployments", "--environment", environment_path)
    assert [one["id"] for one in listed] == numbers[::-1]
    assert listed == run_json(pharos, "deployments", "--project", project)
    assert [one["id"] for one in run_json(pharos, "deployments", "--limit", "1")] == numbers[1:]
    assert (listed[0]["status"], listed[0]["trigger"]) == ("awaiting_approval", "api")
    table = run_text(pharos, "deployments", "--project", project)
    assert max(len(line) for line in table.splitlines()) <= 80
    assert REVISION[:12] in _row(table, numbers[1], environment_path)
    assert {"main", "waiting", "owner@localhost"} <= set(_row(table, numbers[0], environment_path))


def test_unknown_numbers_are_explained(pharos: RunCommand) -> None:
    deployment = "There is no deployment 9999; `pharos deployments` shows the newest."
    change = "There is no change 9999 of variables; `pharos approvals` shows those that wait."
    for command, message in (
        ("approve deployment 9999", deployment),
        ("reject deployment 9999 --reason no", deployment),
        ("cancel 9999 --yes", deployment),
        ("approve variables 9999", change),
        ("reject variables 9999 --reason no", change),
    ):
        assert expect_refusal(pharos, *command.split(), status=5) == message


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    """The arguments are refused before any request."""
    for arguments, output in (
        (("approve",), "the following arguments are required: WHAT"),
        (("approve", "person"), "invalid choice: 'person'"),
        (("approve", "deployment", "1", "--by", "a@b"), "unrecognized arguments: --by"),
        (("reject", "deployment", "1"), "the following arguments are required: --reason"),
        (("reject", "variables", "x", "--reason", "no"), "invalid int value: 'x'"),
        (("cancel",), "the following arguments are required: DEPLOYMENT"),
        (("deployments", "--limit", "0"), "0 is not between 1 and 1000"),
        (("deployments", "--limit", "many"), "many is not between 1 and 1000"),
    ):
        done = command_runner(tmp_path)(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert output in done.stderr
