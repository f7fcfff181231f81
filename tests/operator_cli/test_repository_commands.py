"""`pharos repository` on both kinds of installation."""

from pathlib import Path

import pytest

from tests.support.commands import Run, ask, refused, run_in, tell

URL = "git@github.com:acme/shop.git"


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
    assert (
        told == f"Repository {number}: the project {project} is deployed from {URL}, branch main (github).\n"
    )
    assert (made["url"], made["project"]["slug"]) == (URL, project)
    told = tell(pharos, "repository", "set-branch", number, "trunk")
    assert told == f"Repository {number} is deployed from the branch trunk.\n"
    (line,) = [line for line in tell(pharos, "repository", "list").splitlines() if project in line]
    assert line.split() == [number, project, "github", "trunk", URL]
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
    ):
        done = run_in(tmp_path)("repository", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert told in done.stderr
