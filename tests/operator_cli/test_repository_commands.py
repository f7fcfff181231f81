"""`pharos repository` on both kinds of installation."""

import json
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from control_domain.repositories.webhook_secrets import make_secret
from tests.support.commands import Run, ask, refused, run_in, tell
from tests.support.platform_process import PlatformProcess

URL = "git@github.com:acme/shop.git"
PUBLIC_URL = "https://pharos.example"
SECRET = "chosen-by-the-host-itself"


@pytest.fixture(scope="module")
def more_settings() -> Mapping[str, str]:
    return {
        "PHAROS_VARIABLES_KEY": "a secret of thirty-two characters or more",
        "PHAROS_PUBLIC_URL": f"{PUBLIC_URL}/",
    }


@pytest.fixture
def base_url(request: pytest.FixtureRequest, pharos: Run) -> str:
    """What the addresses of webhooks begin with."""
    if request.node.callspec.params["pharos"] == "engines":
        return f"{PUBLIC_URL}/api"
    platform: PlatformProcess = request.getfixturevalue("on_socket")
    told: str = platform.credentials["base_url"]
    return told


@pytest.fixture
def project(pharos: Run) -> str:
    """The slug of a project of its own: commands of this file are run on the same installations."""
    projects = [one["slug"] for one in ask(pharos, "project", "list")]
    made: str = ask(pharos, "project", "create", f"Repository {len(projects)}")["slug"]
    return made


def test_a_repository_through_its_commands(pharos: Run, project: str) -> None:
    told = tell(pharos, "repository", "connect", URL, "--project", project)
    made = ask(pharos, "repository", "list")[-1]
    number = str(made["id"])
    lines = told.splitlines()
    assert (
        lines[0]
        == f"Repository {number}: the project {project} is deployed from {URL}, branch main (github)."
    )
    assert (made["url"], made["project"]["slug"]) == (URL, project)
    told = tell(pharos, "repository", "set-branch", number, "trunk")
    assert told == f"Repository {number} is deployed from the branch trunk.\n"
    (line,) = [line for line in tell(pharos, "repository", "list").splitlines() if project in line]
    assert line.split() == [number, project, "github", "trunk", "on", URL]
    line = refused(pharos, "repository", "connect", "/srv/shop.git", "--project", project)
    assert line == (
        f"The project {project} is deployed from {URL} already; disconnect that first with `pharos repository "
        f"disconnect {number}`."
    )
    line = refused(pharos, "repository", "disconnect", number)
    assert line.startswith(
        f"Without a terminal nobody can be asked whether to disconnect repository {number}"
    )
    told = tell(pharos, "repository", "disconnect", number, "--yes")
    assert told == f"Repository {number} is disconnected from the project {project}.\n"
    assert refused(pharos, "repository", "disconnect", number, "--yes") == (
        f"No repository {number} is connected; `pharos repository list` shows those that are."
    )
    wanted = ("--project", project, "--kind", "gitlab", "--branch", "main")
    made = ask(pharos, "repository", "connect", "file:///srv/shop.git", *wanted)
    assert (made["kind"], made["url"]) == ("gitlab", "file:///srv/shop.git")


@pytest.mark.parametrize(
    ("command", "told"),
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
def test_what_cannot_be_is_one_sentence(pharos: Run, command: list[str], told: str) -> None:
    line = refused(pharos, "repository", *command)
    assert told in line and "hunter2" not in line


def test_arguments_that_are_wrong(tmp_path: Path) -> None:
    """Refused before anything is asked."""
    for arguments, told in (
        ((), "the following arguments are required: ACTION"),
        (("connect",), "the following arguments are required: URL"),
        (("connect", URL, "--kind", "svn"), "invalid choice: 'svn'"),
        (("connect", "--upload-pack=x"), "the following arguments are required: URL"),
        (("set-branch", "1"), "the following arguments are required: BRANCH"),
        (("disconnect", "first"), "invalid int value: 'first'"),
        (("set", "1", "--forks", "maybe"), "invalid choice: 'maybe'"),
        (("new-secret",), "the following arguments are required: ID"),
    ):
        done = run_in(tmp_path)("repository", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert told in done.stderr


@pytest.mark.parametrize(
    ("kind", "more", "secret_kind", "where"),
    [
        ("github", (), "hmac", "Content type is application/json"),
        ("gitlab", (), "signing", "its Signing token"),
        ("gitlab", ("--plain-secret",), "plain", "its Secret token"),
        ("bitbucket", (), "hmac", "Pull request created, updated, merged and declined"),
    ],
)
def test_the_webhook_is_told_to_be_pasted(
    pharos: Run, project: str, base_url: str, kind: str, more: tuple[str, ...], secret_kind: str, where: str
) -> None:
    wanted = ("https://git.example/shop", "--project", project, "--kind", kind, *more)
    told = tell(pharos, "repository", "connect", *wanted)
    number = ask(pharos, "repository", "list")[-1]["id"]
    _, _, address, secret, set_up, *rest = told.splitlines()
    assert address == f"  {base_url}/repositories/{number}/webhook"
    assert len(secret.strip()) >= 43 and where in set_up
    assert len(rest) == (0 if base_url.startswith(PUBLIC_URL) else 1)
    renewed = ask(pharos, "repository", "new-secret", str(number), *more)
    assert renewed["webhook"] == {
        "url": address.strip(),
        "kind": secret_kind,
        "secret": renewed["webhook"]["secret"],
    }
    assert renewed["webhook"]["secret"] != secret.strip()
    told = tell(pharos, "repository", "new-secret", str(number), *more)
    assert told.startswith(f"Repository {number} has another secret.") and address in told.splitlines()


def test_the_hosts_own_secret_is_taken(pharos: Run, project: str, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    made = ask(pharos, "repository", "connect", URL, "--project", project, "--secret-file", str(file))
    assert made["webhook"]["secret"] == SECRET
    signing = make_secret("github").value
    done = pharos(
        "repository", "new-secret", str(made["id"]), "--json", "--secret-file", "-", stdin=f" {signing}\r\n"
    )
    assert json.loads(done.stdout)["webhook"]["secret"] == signing
    file.write_text("hunter2" * 200)
    line = refused(pharos, "repository", "new-secret", str(made["id"]), "--secret-file", str(file))
    assert line == f"{file} has more than 1024 bytes, which is the most."
    file.write_text("hunter2")
    line = refused(pharos, "repository", "new-secret", str(made["id"]), "--secret-file", str(file))
    assert "hunter2" not in line
    # Those of before are shown nowhere.
    assert SECRET not in tell(pharos, "repository", "list") + tell(pharos, "audit", "--limit", "1000")


def test_a_repository_of_no_host_has_none(pharos: Run, project: str) -> None:
    made = ask(pharos, "repository", "connect", "/srv/shop.git", "--project", project)
    assert made["webhook"] is None
    (line,) = [line for line in tell(pharos, "repository", "list").splitlines() if project in line]
    assert line.split() == [str(made["id"]), project, "git", "main", "-", "/srv/shop.git"]
    ask(pharos, "repository", "disconnect", str(made["id"]), "--yes")
    told = tell(pharos, "repository", "connect", "/srv/shop.git", "--project", project)
    assert len(told.splitlines()) == 1


def test_switches_are_set_and_shown(pharos: Run, project: str) -> None:
    number = str(ask(pharos, "repository", "connect", URL, "--project", project)["id"])

    def shown() -> str:
        (line,) = [line for line in tell(pharos, "repository", "list").splitlines() if project in line]
        return line

    told = tell(pharos, "repository", "set", number, "--forks", "on")
    assert told == (
        f"Repository {number}: pushes deploy, and pull requests get previews; pull requests from forks get previews.\n"
    )
    assert "on, forks" in shown()
    told = tell(pharos, "repository", "set", number, "--push-deploys", "off", "--forks", "off")
    assert told == f"Repository {number}: its webhooks are not listened to.\n"
    assert " off " in shown()
    changed = ask(pharos, "repository", "set", number, "--push-deploys", "on")
    assert (changed["push_deploys"], changed["forks"]) == (True, False)


def test_the_credentials_have_the_repository_of_each_project(on_socket: PlatformProcess) -> None:
    before = on_socket.credentials

    def operate(*command: str) -> dict[str, object]:
        done = on_socket.run("repository", *command, "--json")
        assert done.returncode == 0, done.stderr
        told: dict[str, object] = json.loads(done.stdout)
        return told

    slugs, ids = [], []
    for name in ("One", "Two", "Three"):
        done = on_socket.run("project", "create", f"Credentials {name}", "--json")
        slugs.append(json.loads(done.stdout)["slug"])
        ids.append(json.loads(done.stdout)["id"])
    first = operate("connect", URL, "--project", slugs[0])
    second = operate("connect", URL, "--project", slugs[1], "--kind", "gitlab")

    def kept(told: dict[str, object]) -> dict[str, object]:
        webhook = told["webhook"]
        assert isinstance(webhook, dict)
        return {"id": told["id"], "kind": told["kind"], "secret": webhook["secret"]}

    both = {**before.get("repositories", {}), ids[0]: kept(first), ids[1]: kept(second)}
    assert on_socket.credentials == {**before, "repositories": both}
    path = on_socket.data / "credentials.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    # One without a webhook is not kept.
    operate("connect", "/srv/shop.git", "--project", slugs[2])
    renewed = operate("new-secret", str(second["id"]))
    assert on_socket.credentials == {**before, "repositories": {**both, ids[1]: kept(renewed)}}


def test_without_the_credentials_the_secret_is_shown_all_the_same(
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
    assert done.stderr.startswith(f"pharos: {path} is not there.")
    webhook = json.loads(done.stdout)["webhook"]
    assert webhook["url"].startswith("https://your-host/api/repositories/") and webhook["secret"]


def test_the_first_starts_sample_gives_way(on_socket: PlatformProcess) -> None:
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
