"""`pharos repository` on a running `pharos up`."""

import json
import stat
from pathlib import Path
from typing import get_args

import pytest

from control_domain.repositories.describe import RepositoryKind
from control_domain.repositories.webhook_secrets import make_secret
from operator_cli.api.target import Target
from operator_cli.repositories.repository import _KINDS
from operator_cli.repositories.webhook_setup import save_secret
from tests.support.commands import RunCommand, command_runner, expect_refusal, run_json, run_text
from tests.support.platform_process import PlatformProcess

URL = "git@github.com:acme/shop.git"
MINE = ("--project", "my-project")
SECRET = "chosen-by-the-host-itself"


@pytest.fixture
def project(pharos: RunCommand) -> str:
    """The slug of a new project: the tests of this file share an installation."""
    projects = [one["slug"] for one in run_json(pharos, "project", "list")]
    created: str = run_json(pharos, "project", "create", f"Repository {len(projects)}")["slug"]
    return created


def test_repositories_are_connected_listed_changed_and_disconnected(pharos: RunCommand, project: str) -> None:
    output = run_text(pharos, "repository", "connect", URL, "--project", project)
    created = run_json(pharos, "repository", "show", project)
    number = str(created["id"])
    lines = output.splitlines()
    assert (
        lines[0]
        == f"Repository {number}: the project {project} is deployed from {URL}, branch main (github)."
    )
    assert (created["url"], created["project"]["slug"]) == (URL, project)
    output = run_text(pharos, "repository", "set-branch", number, "trunk")
    changed = f"Repository {number} of the project {project}: branch trunk; "
    assert (
        output == f"{changed}webhooks: pushes deploy, and pull requests get previews, but not from forks.\n"
    )
    (line,) = [
        line for line in run_text(pharos, "repository", "list", "--wide").splitlines() if project in line
    ]
    assert line.split() == [number, project, "github", "trunk", "on", URL]
    line = expect_refusal(pharos, "repository", "connect", "/srv/shop.git", "--project", project)
    assert line == (
        f"The project {project} is deployed from {URL} (repository {number}): disconnect that repository first. "
        f"`pharos repository disconnect {project}` does that."
    )
    line = expect_refusal(pharos, "repository", "disconnect", project)
    assert line.startswith(
        f"Without a terminal, pharos cannot ask whether to disconnect {URL} from the project {project}"
    )
    output = run_text(pharos, "repository", "disconnect", project, "--yes")
    assert output == f"Repository {number} is disconnected from the project {project}.\n"
    assert expect_refusal(pharos, "repository", "disconnect", project, "--yes", status=5).startswith(
        f"There is no repository '{project}'."
    )
    assert "disconnected " in run_text(pharos, "repository", "show", number)
    # This repository has no webhook.
    output = run_text(pharos, "repository", "connect", "/srv/shop.git", "--project", project)
    assert len(output.splitlines()) == 1
    shown = run_text(pharos, "repository", "show", project)
    assert "webhooks     none, because its host is not GitHub, GitLab or Bitbucket" in shown


@pytest.mark.parametrize(
    ("command", "status", "output"),
    [
        (
            ["connect", "https://x:hunter2@github.com/a/b", *MINE],
            1,
            "give the machine that deploys a deploy key",
        ),
        (
            ["connect", URL, "--branch", "a b", *MINE],
            1,
            "branch: must be the name of a branch that Git allows",
        ),
        (["connect", URL, "--project", "nowhere"], 5, "There is no project 'nowhere'."),
        (
            ["connect", URL, "--secret-kind", "plain", *MINE],
            1,
            "secret_kind: must be hmac for a webhook of github",
        ),
        (["connect", URL, "--secret-file", "nowhere", *MINE], 1, "nowhere cannot be read"),
        (
            ["connect", URL, "--secret-file", "-", *MINE],
            1,
            "secret: must be 16 to 255 printable ASCII characters",
        ),
        (["new-secret", "9999"], 5, "The account has no such repository."),
        (["set", "nowhere", "--forks", "on"], 5, "There is no repository 'nowhere'."),
        (["set", "1"], 2, "Nothing to change. Give --branch, --push-deploys, --forks or --host-id."),
        (["set", "1", "--host-id", "x"], 1, "host_id: must be the ID of a repository at github"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_impossible_requests_are_refused(
    pharos: RunCommand, command: list[str], status: int, output: str
) -> None:
    done = pharos("repository", *command)
    assert (done.returncode, done.stdout) == (status, "")
    assert output in done.stderr and "hunter2" not in done.stderr


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    """The arguments are refused before any request."""
    for arguments, output in (
        ((), "the following arguments are required: VERB"),
        (("connect",), "the following arguments are required: URL"),
        (("connect", URL, "--kind", "svn"), "invalid choice: 'svn'"),
        (("set-branch", "1"), "the following arguments are required: BRANCH"),
        (("set", "1", "--forks", "maybe"), "invalid choice: 'maybe'"),
        (("new-secret",), "the following arguments are required: REPOSITORY"),
    ):
        done = command_runner(tmp_path)("repository", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert output in done.stderr


def test_kinds_are_those_of_the_api() -> None:
    literal, *_ = get_args(RepositoryKind)
    assert get_args(literal) == _KINDS


@pytest.mark.parametrize(
    ("kind", "more", "secret_kind", "where"),
    [
        ("github", (), "hmac", "Content type is application/json"),
        ("gitlab", (), "signing", "its Signing token"),
        ("gitlab", ("--plain-secret",), "plain", "its Secret token"),
        ("bitbucket", (), "hmac", "Pull request created, updated, merged and declined"),
    ],
)
def test_the_webhook_is_printed_with_instructions(
    pharos: RunCommand,
    project: str,
    on_socket: PlatformProcess,
    kind: str,
    more: tuple[str, ...],
    secret_kind: str,
    where: str,
) -> None:
    wanted = ("https://git.example/shop", "--project", project, "--kind", kind, *more)
    output = run_text(pharos, "repository", "connect", *wanted)
    _, _, address, secret, set_up, advice = output.splitlines()
    number = run_json(pharos, "repository", "show", project)["id"]
    assert address == f"  {on_socket.credentials['base_url']}/repositories/{number}/webhook"
    assert len(secret.strip()) >= 43 and where in set_up and "PHAROS_PUBLIC_URL" in advice
    renewed = run_json(pharos, "repository", "new-secret", project)
    assert renewed["webhook"] == {
        "url": address.strip(),
        "secret_kind": secret_kind,
        "secret": renewed["webhook"]["secret"],
    }
    assert renewed["webhook"]["secret"] != secret.strip()


def test_a_secret_of_the_host_is_read_from_a_file(pharos: RunCommand, project: str, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    created = run_json(pharos, "repository", "connect", URL, "--project", project, "--secret-file", str(file))
    assert created["webhook"]["secret"] == SECRET
    signing = make_secret("github").value
    renew = ("repository", "new-secret", project)
    done = pharos(*renew, "--json", "--secret-file", "-", stdin=f" {signing}\r\n")
    assert json.loads(done.stdout)["webhook"]["secret"] == signing
    file.write_text("hunter2" * 200)
    line = expect_refusal(pharos, *renew, "--secret-file", str(file))
    assert line == f"{file} has more than 1024 bytes, which is the maximum."
    file.write_text("hunter2")
    done = pharos(*renew, "--secret-file", str(file))
    assert done.returncode == 1 and "hunter2" not in done.stderr
    # Earlier secrets are not shown.
    assert SECRET not in run_text(pharos, "repository", "show", project)


def test_switches_are_set_and_shown(pharos: RunCommand, project: str) -> None:
    number = str(run_json(pharos, "repository", "connect", URL, "--project", project)["id"])

    def shown() -> str:
        (line,) = [line for line in run_text(pharos, "repository", "list").splitlines() if project in line]
        return line

    output = run_text(pharos, "repository", "set", number, "--forks", "on", "--host-id", "15")
    assert output.endswith("pushes deploy, and pull requests get previews, also from forks.\n")
    assert "on, forks" in shown()
    output = run_text(pharos, "repository", "set", number, "--push-deploys", "off", "--forks", "off")
    assert output == f"Repository {number} of the project {project}: branch main; webhooks: not processed.\n"
    assert " off " in shown()
    wanted = ("--push-deploys", "on", "--branch", "trunk")
    changed = run_json(pharos, "repository", "set", number, *wanted)
    assert (changed["push_deploys"], changed["forks"], changed["branch"]) == (True, False, "trunk")
    assert changed["host_id"] == "15"
    assert run_json(pharos, "repository", "set", number, "--host-id", "auto")["host_id"] is None


def test_the_credentials_contain_the_repository_of_each_project(on_socket: PlatformProcess) -> None:
    before = on_socket.credentials

    def operate(*command: str) -> dict[str, object]:
        done = on_socket.run("repository", *command, "--json")
        assert done.returncode == 0, done.stderr
        output: dict[str, object] = json.loads(done.stdout)
        return output

    slugs, ids = [], []
    for name in ("One", "Two", "Three"):
        done = on_socket.run("project", "create", f"Credentials {name}", "--json")
        slugs.append(json.loads(done.stdout)["slug"])
        ids.append(json.loads(done.stdout)["id"])
    first = operate("connect", URL, "--project", slugs[0])
    second = operate("connect", URL, "--project", slugs[1], "--kind", "gitlab")

    def saved_repository(output: dict[str, object]) -> dict[str, object]:
        webhook = output["webhook"]
        assert isinstance(webhook, dict)
        return {"id": output["id"], "kind": output["kind"], "secret": webhook["secret"]}

    both = {
        **before.get("repositories", {}),
        ids[0]: saved_repository(first),
        ids[1]: saved_repository(second),
    }
    assert on_socket.credentials == {**before, "repositories": both}
    path = on_socket.data / "credentials.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    # A repository without a webhook is not saved.
    operate("connect", "/srv/shop.git", "--project", slugs[2])
    renewed = operate("new-secret", str(second["id"]))
    assert on_socket.credentials == {**before, "repositories": {**both, ids[1]: saved_repository(renewed)}}


def test_a_secret_that_cannot_be_saved_is_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is shown only once."""
    target = Target("http://127.0.0.1:9/api", None, "", "", tmp_path)
    repository = {"id": 1, "kind": "github", "webhook": {"secret": SECRET}, "project": {"id": "prj_1"}}
    save_secret(target, repository, is_new=True)
    assert capsys.readouterr().err.startswith(f"pharos: {tmp_path}/credentials.json does not exist.")


def test_connecting_replaces_the_sample_repository(on_socket: PlatformProcess) -> None:
    (sample,) = [
        one for one in json.loads(on_socket.run("repository", "list", "--json").stdout) if one["sample"]
    ]
    assert "(sample)" in on_socket.run("repository", "list").stdout
    project = sample["project"]["slug"]
    done = on_socket.run("repository", "connect", URL, "--project", project, "--json")
    assert done.returncode == 0, done.stderr
    listed = json.loads(on_socket.run("repository", "list", "--json").stdout)
    (now,) = [one for one in listed if one["project"]["slug"] == project]
    assert (now["url"], now["sample"], sample["id"] in {one["id"] for one in listed}) == (URL, False, False)
