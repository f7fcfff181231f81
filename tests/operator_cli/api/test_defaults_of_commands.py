"""Which commands take the project from the repository of the folder, and which only from the variable."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from operator_cli.api import client
from operator_cli.api.client import Api
from operator_cli.api.default_environment import VARIABLE
from operator_cli.errors import CommandFailed
from operator_cli.grammar.build_parser import build_parser
from operator_cli.run_command import _load
from tests.support.fake_api import TOKEN, Answer, FakeApi, page, problem


def _project(slug: str) -> dict[str, Any]:
    rows = [
        {"id": f"env_0123456789{slug}{each}", "slug": each, "name": each, "type": each}
        for each in ("production", "staging")
    ]
    return {"id": f"prj_0123456789{slug}", "slug": slug, "name": slug, "environments": rows}


_READ = (
    "config export",
    "environment show",
    "issues",
    "logs",
    "metrics list",
    "open",
    "services",
    "tail",
    "traces",
    "variables show",
    "workflow show",
)
_ADD = (
    "deploy",
    "environment create qa --type staging",
    "heartbeat create nightly --every 5m",
    "issues resolve 68f0d1cb49e0",
    "key create",
    "preview open feature",
    "queue create work",
    "site create Shop --domain shop.example",
)
_CHANGE = (
    "config apply document.yaml --yes",
    "environment hibernate staging",
    "environment remove staging --yes",
    "environment resume staging",
    "environment scale staging 2",
    "environment set staging --order 4",
    "environment wake staging",
    "key revoke 1 --environment staging --yes",
    "lock staging --reason incident",
    "promote 7 --to staging",
    "promote staging --to shop/production",
    "repository connect https://github.com/acme/other",
    "rollback",
    "rollback staging",
    "unlock staging",
    "variables protect staging A",
    "variables replace staging document.yaml",
    "variables set staging A=1",
    "variables unprotect staging A",
    "variables unset staging A",
    "workflow set document.yaml",
)


@pytest.fixture(autouse=True)
def _folder_of_shop(server: FakeApi, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Two projects with equal environments; the current folder is a clone of the repository of one of them."""
    shop, url = _project("shop"), "https://github.com/acme/shop"
    server.by_path["/api/v1/projects"] = page([shop, _project("blog")])
    server.by_path["/api/v1/repositories"] = page([{"project": shop, "url": url}])
    deployment = {"environment_id": "env_0123456789gone"}
    server.by_path["/api/v1/deployments/7"] = Answer(content={"data": deployment})
    # Ends a command after its first request for the chosen project.
    server.answers.append(problem(403, "missing-scope", "The test ends here."))
    for arguments in (("init", "--quiet"), ("remote", "add", "origin", url)):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    (tmp_path / "document.yaml").write_text("A=1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("PHAROS_URL", server.url.removesuffix("/api"))
    monkeypatch.setenv("PHAROS_TOKEN", TOKEN)
    with ExitStack() as opened:
        # The end of the process closes the connections of a command.
        monkeypatch.setattr(
            client, "Api", lambda *values, **options: opened.enter_context(Api(*values, **options))
        )
        yield


def _fail(command: str) -> str:
    """Run a command that fails, and return its message."""
    words = command.split()
    arguments = build_parser(words[0]).parse_args(words)
    with pytest.raises(CommandFailed) as failed:
        _load(arguments.run)(arguments)
    return str(failed.value)


def _last_request(server: FakeApi) -> str:
    return f"{server.requests[-1].path} {server.requests[-1].body}"


@pytest.mark.parametrize("command", [*_READ, *_ADD])
def test_commands_that_read_or_add_use_the_folder(server: FakeApi, command: str) -> None:
    message = _fail(command)
    # The folder chooses the project; both of its environments are left.
    assert "several environments in the project shop" in message or "shop" in _last_request(server)


@pytest.mark.parametrize("command", _READ)
def test_the_variable_comes_before_the_folder_for_commands_that_read(
    server: FakeApi, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv(VARIABLE, "blog/production")
    _fail(command)
    assert "blog" in _last_request(server)


@pytest.mark.parametrize("command", [*_ADD, *_CHANGE])
def test_other_commands_fail_if_the_variable_and_the_folder_disagree(
    server: FakeApi, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv(VARIABLE, "blog/production")
    assert "the repository of this folder belongs to the project shop" in _fail(command)
    assert {request.method for request in server.requests} == {"GET"}


@pytest.mark.parametrize("command", _CHANGE)
def test_commands_that_change_something_do_not_use_the_folder(
    server: FakeApi, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    message = _fail(command)
    assert (
        "several environments: blog" in message
        or "several projects: blog" in message
        or (message == "'staging' means several environments. Name one of them: blog/staging, shop/staging.")
    )
    assert {request.method for request in server.requests} == {"GET"}
    monkeypatch.setenv(VARIABLE, "shop/production")
    _fail(command)
    assert "shop" in _last_request(server) or server.requests[-1].path.endswith("/deployments/7/promote")
