"""`pharos repository` on both kinds of installation."""

import json
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from control_domain.repositories.webhook_secrets import make_secret
from tests.support.commands import RunCommand, command_runner, expect_refusal, run_json, run_text
from tests.support.platform_process import PlatformProcess

URL = "git@github.com:acme/shop.git"
PUBLIC_URL = "https://pharos.example"
SECRET = "chosen-by-the-host-itself"


@pytest.fixture(scope="module")
def extra_settings() -> Mapping[str, str]:
    return {
        "PHAROS_VARIABLES_KEY": "a secret of thirty-two characters or more",
        "PHAROS_PUBLIC_URL": f"{PUBLIC_URL}/",
    }


@pytest.fixture
def base_url(request: pytest.FixtureRequest, pharos: RunCommand) -> str:
    """The beginning of webhook URLs."""
    if request.node.callspec.params["pharos"] == "engines":
        return f"{PUBLIC_URL}/api"
    platform: PlatformProcess = request.getfixturevalue("on_socket")
    output: str = platform.credentials["base_url"]
    return output


@pytest.fixture
def project(pharos: RunCommand) -> str:
    """The slug of a new project: the tests of this file share their installations."""
    projects = [one["slug"] for one in run_json(pharos, "project", "list")]
    created: str = run_json(pharos, "project", "create", f"Repository {len(projects)}")["slug"]
    return created


def test_repositories_are_connected_listed_changed_and_disconnected(pharos: RunCommand, project: str) -> None:
    output = run_text(pharos, "repository", "connect", URL, "--project", project)
    created = run_json(pharos, "repository", "list")[-1]
    number = str(created["id"])
    lines = output.splitlines()
    assert (
        lines[0]
        == f"Repository {number}: the project {project} is deployed from {URL}, branch main (github)."
    )
    assert (created["url"], created["project"]["slug"]) == (URL, project)
    output = run_text(pharos, "repository", "set-branch", number, "trunk")
    assert output == f"Repository {number} is deployed from the branch trunk.\n"
    (line,) = [line for line in run_text(pharos, "repository", "list").splitlines() if project in line]
    assert line.split() == [number, project, "github", "trunk", "on", URL]
    line = expect_refusal(pharos, "repository", "connect", "/srv/shop.git", "--project", project)
    assert line == (
        f"The project {project} is deployed from {URL} already; disconnect that first with `pharos repository "
        f"disconnect {number}`."
    )
    line = expect_refusal(pharos, "repository", "disconnect", number)
    assert line.startswith(
        f"Without a terminal nobody can be asked whether to disconnect repository {number}"
    )
    output = run_text(pharos, "repository", "disconnect", number, "--yes")
    assert output == f"Repository {number} is disconnected from the project {project}.\n"
    assert expect_refusal(pharos, "repository", "disconnect", number, "--yes") == (
        f"No repository {number} is connected; `pharos repository list` shows those that are."
    )
    wanted = ("--project", project, "--kind", "gitlab", "--branch", "main")
    created = run_json(pharos, "repository", "connect", "file:///srv/shop.git", *wanted)
    assert (created["kind"], created["url"]) == ("gitlab", "file:///srv/shop.git")


@pytest.mark.parametrize(
    ("command", "output"),
    [
        (["connect", "https://x:hunter2@github.com/a/b"], "give the machine that deploys a deploy key"),
        (["connect", "http://github.com/a/b"], "Repositories are not taken from http: write it as https://"),
        (["connect", "ext::sh -c id"], "This is no repository's address: write it as https://"),
        (["connect", URL, "--branch", "a b"], "'a b' is no name of a branch that Git allows"),
        (["connect", URL, "--project", "nowhere"], "There is no project nowhere;"),
        (["set-branch", "9999", "main"], "No repository 9999 is connected;"),
        (["disconnect", "0", "--yes"], "0 is no ID."),
        (
            ["connect", URL, "--plain-secret"],
            "A webhook of github is always signed: leave --plain-secret out.",
        ),
        (["connect", URL, "--secret-file", "nowhere"], "nowhere cannot be read: No such file or directory."),
        (["connect", URL, "--secret-file", "-"], "has 16 to 255 printable ASCII characters"),
        (["new-secret", "9999"], "No repository 9999 is connected;"),
        (["set", "9999", "--forks", "on"], "No repository 9999 is connected;"),
        (["set", "9999"], "Nothing to change. Give --push-deploys, --forks or --host-id."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_impossible_requests_fail_with_one_sentence(
    pharos: RunCommand, command: list[str], output: str
) -> None:
    line = expect_refusal(pharos, "repository", *command)
    assert output in line and "hunter2" not in line


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    """The arguments are refused before any request."""
    for arguments, output in (
        ((), "the following arguments are required: ACTION"),
        (("connect",), "the following arguments are required: URL"),
        (("connect", URL, "--kind", "svn"), "invalid choice: 'svn'"),
        (("connect", "--upload-pack=x"), "the following arguments are required: URL"),
        (("set-branch", "1"), "the following arguments are required: BRANCH"),
        (("disconnect", "first"), "invalid int value: 'first'"),
        (("set", "1", "--forks", "maybe"), "invalid choice: 'maybe'"),
        (("new-secret",), "the following arguments are required: ID"),
    ):
        done = command_runner(tmp_path)("repository", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert output in done.stderr


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
    base_url: str,
    kind: str,
    more: tuple[str, ...],
    secret_kind: str,
    where: str,
) -> None:
    wanted = ("https://git.example/shop", "--project", project, "--kind", kind, *more)
    output = run_text(pharos, "repository", "connect", *wanted)
    number = run_json(pharos, "repository", "list")[-1]["id"]
    _, _, address, secret, set_up, *rest = output.splitlines()
    assert address == f"  {base_url}/repositories/{number}/webhook"
    assert len(secret.strip()) >= 43 and where in set_up
    assert len(rest) == (0 if base_url.startswith(PUBLIC_URL) else 1)
    renewed = run_json(pharos, "repository", "new-secret", str(number), *more)
    assert renewed["webhook"] == {
        "url": address.strip(),
        "kind": secret_kind,
        "secret": renewed["webhook"]["secret"],
    }
    assert renewed["webhook"]["secret"] != secret.strip()
    output = run_text(pharos, "repository", "new-secret", str(number), *more)
    assert output.startswith(f"Repository {number} has a new secret.") and address in output.splitlines()


def test_a_secret_of_the_host_is_read_from_a_file(pharos: RunCommand, project: str, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    created = run_json(pharos, "repository", "connect", URL, "--project", project, "--secret-file", str(file))
    assert created["webhook"]["secret"] == SECRET
    signing = make_secret("github").value
    done = pharos(
        "repository",
        "new-secret",
        str(created["id"]),
        "--json",
        "--secret-file",
        "-",
        stdin=f" {signing}\r\n",
    )
    assert json.loads(done.stdout)["webhook"]["secret"] == signing
    file.write_text("hunter2" * 200)
    line = expect_refusal(pharos, "repository", "new-secret", str(created["id"]), "--secret-file", str(file))
    assert line == f"{file} has more than 1024 bytes, which is the maximum."
    file.write_text("hunter2")
    line = expect_refusal(pharos, "repository", "new-secret", str(created["id"]), "--secret-file", str(file))
    assert "hunter2" not in line
    # Earlier secrets are shown nowhere.
    assert SECRET not in run_text(pharos, "repository", "list") + run_text(pharos, "audit", "--limit", "1000")


def test_a_plain_git_repository_has_no_webhook(pharos: RunCommand, project: str) -> None:
    created = run_json(pharos, "repository", "connect", "/srv/shop.git", "--project", project)
    assert created["webhook"] is None
    (line,) = [line for line in run_text(pharos, "repository", "list").splitlines() if project in line]
    assert line.split() == [str(created["id"]), project, "git", "main", "-", "/srv/shop.git"]
    run_json(pharos, "repository", "disconnect", str(created["id"]), "--yes")
    output = run_text(pharos, "repository", "connect", "/srv/shop.git", "--project", project)
    assert len(output.splitlines()) == 1


def test_switches_are_set_and_shown(pharos: RunCommand, project: str) -> None:
    number = str(run_json(pharos, "repository", "connect", URL, "--project", project)["id"])

    def shown() -> str:
        (line,) = [line for line in run_text(pharos, "repository", "list").splitlines() if project in line]
        return line

    output = run_text(pharos, "repository", "set", number, "--forks", "on")
    assert output == (
        f"Repository {number}: pushes deploy, and pull requests get previews; pull requests from forks get previews.\n"
    )
    assert "on, forks" in shown()
    output = run_text(pharos, "repository", "set", number, "--push-deploys", "off", "--forks", "off")
    assert output == f"Repository {number}: its webhooks are not processed.\n"
    assert " off " in shown()
    changed = run_json(pharos, "repository", "set", number, "--push-deploys", "on")
    assert (changed["push_deploys"], changed["forks"]) == (True, False)


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


def test_the_secret_is_shown_even_if_the_credentials_cannot_be_saved(
    on_socket: PlatformProcess, tmp_path: Path
) -> None:
    done = on_socket.run("project", "create", "Without credentials", "--json")
    project = json.loads(done.stdout)["slug"]
    path = on_socket.data / "credentials.json"
    aside = path.rename(tmp_path / "aside.json")
    try:
        done = on_socket.run("repository", "connect", URL, "--project", project, "--json")
    finally:
        aside.rename(path)
    assert done.returncode == 0
    assert done.stderr.startswith(f"pharos: {path} does not exist.")
    webhook = json.loads(done.stdout)["webhook"]
    assert webhook["url"].startswith("https://your-host/api/repositories/") and webhook["secret"]


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
