"""Which environment and project a command uses that names none, where there are several."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from operator_cli.api.client import Api
from operator_cli.api.default_environment import VARIABLE, Effect, make_repository_key
from operator_cli.api.names import resolve_environment, resolve_project
from operator_cli.errors import CommandFailed
from tests.support.fake_api import Answer, FakeApi, page, problem


def _project(slug: str, *environments: str) -> dict[str, Any]:
    rows = [
        {"id": f"env_0123456789{slug}{each}", "slug": each, "name": each, "type": "production"}
        for each in environments
    ]
    return {"id": f"prj_0123456789{slug}", "slug": slug, "name": slug, "environments": rows}


_SHOP, _BLOG = _project("shop", "production", "staging"), _project("blog", "production")


@pytest.fixture(autouse=True)
def _no_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    # A test run may be in a folder of a repository.
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))


@pytest.fixture
def projects(server: FakeApi) -> None:
    server.by_path["/api/v1/projects"] = page([_SHOP, _BLOG])


def _connect(server: FakeApi, *pairs: tuple[dict[str, Any], str]) -> None:
    server.by_path["/api/v1/repositories"] = page(
        [{"project": project, "url": url} for project, url in pairs]
    )


def _make_repository(folder: Path, remote: str) -> Path:
    folder.mkdir()
    _git(folder, "init", "--quiet")
    _git(folder, "remote", "add", "origin", remote)
    return folder


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True)


@pytest.mark.usefixtures("projects")
@pytest.mark.parametrize(
    ("default", "environment", "path"),
    [
        ("shop/production", None, "shop/production"),
        ("staging", None, "shop/staging"),
        ("env_0123456789blogproduction", None, "blog/production"),
        # A flag comes first.
        ("shop/production", "blog/production", "blog/production"),
        # A name of several projects is that of the default's project, even if the default does not exist yet.
        ("blog/production", "production", "blog/production"),
        ("shop/new", "production", "shop/production"),
        # The default's project has no environment of this name.
        ("blog/production", "staging", "shop/staging"),
    ],
)
def test_the_variable_decides_where_no_flag_does(
    api: Api, monkeypatch: pytest.MonkeyPatch, default: str, environment: str | None, path: str
) -> None:
    monkeypatch.setenv(VARIABLE, default)
    assert resolve_environment(api, environment).path == path


@pytest.mark.usefixtures("projects")
def test_the_variable_decides_the_project(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    for value, slug in (("blog/production", "blog"), ("staging", "shop"), ("blog/not-yet", "blog")):
        monkeypatch.setenv(VARIABLE, value)
        assert resolve_project(api, None).slug == slug
        assert resolve_project(api, "shop").slug == "shop"


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("value", ["old/production", "old"])
def test_a_variable_that_names_nothing_is_named_in_the_error(
    server: FakeApi, api: Api, monkeypatch: pytest.MonkeyPatch, value: str, count: int
) -> None:
    """Even if there is only one environment: the person meant another one."""
    server.by_path["/api/v1/projects"] = page([_BLOG, _SHOP][:count])
    monkeypatch.setenv(VARIABLE, value)
    for resolve in (resolve_environment, resolve_project):
        with pytest.raises(
            CommandFailed, match=f"^{VARIABLE} is '{value}': There is no .* unset it.$"
        ) as failed:
            resolve(api, None)
        assert failed.value.exit_status == 5


@pytest.mark.usefixtures("projects")
def test_the_repository_of_the_folder_decides(
    server: FakeApi, api: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _connect(server, (_SHOP, "git@github.com:acme/shop.git"), (_BLOG, "https://github.com/acme/blog"))
    folder = _make_repository(tmp_path / "clone", "https://ada:secret@GitHub.com/Acme/blog.git")
    (folder / "src").mkdir()
    monkeypatch.chdir(folder / "src")
    for effect in (Effect.READS, Effect.ADDS):
        assert resolve_environment(api, None, effect=effect).path == "blog/production"
        assert resolve_environment(api, "production", effect=effect).path == "blog/production"
        assert resolve_environment(api, "staging", effect=effect).path == "shop/staging"
        assert resolve_project(api, None, effect=effect).slug == "blog"
    monkeypatch.setenv(VARIABLE, "shop/staging")
    assert resolve_environment(api, None, effect=Effect.READS).path == "shop/staging"


@pytest.mark.usefixtures("projects")
def test_a_folder_chooses_nothing_for_a_command_that_changes_something(
    server: FakeApi, api: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _connect(server, (_SHOP, "https://github.com/acme/shop"))
    monkeypatch.chdir(_make_repository(tmp_path / "clone", "https://github.com/acme/shop"))
    with pytest.raises(
        CommandFailed, match="^'production' means several environments. Name one of them: blog/"
    ):
        resolve_environment(api, "production")
    with pytest.raises(CommandFailed, match="^There are several environments: .* or set PHAROS_DEFAULT_ENV"):
        resolve_environment(api, None)
    with pytest.raises(CommandFailed, match="^There are several projects: blog, shop. Add"):
        resolve_project(api, None)
    monkeypatch.setenv(VARIABLE, "shop/staging")
    assert resolve_environment(api, None).path == "shop/staging"
    assert resolve_environment(api, "production").path == "shop/production"
    assert resolve_project(api, None).slug == "shop"


@pytest.mark.usefixtures("projects")
@pytest.mark.parametrize("remote", ["upstream", "origin2"])
def test_only_the_origin_of_a_repository_counts(
    server: FakeApi, api: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, remote: str
) -> None:
    """The checkout of a fork has the original as another remote."""
    _connect(server, (_SHOP, "git@github.com:acme/shop.git"))
    folder = _make_repository(tmp_path / "clone", "git@github.com:me/shop.git")
    _git(folder, "remote", "add", remote, "https://github.com/acme/shop")
    monkeypatch.chdir(folder)
    with pytest.raises(CommandFailed, match="several environments"):
        resolve_environment(api, "production", effect=Effect.READS)
    _git(folder, "remote", "set-url", "--add", "origin", "https://github.com/acme/shop")
    with pytest.raises(CommandFailed, match="several projects"):
        resolve_project(api, None, effect=Effect.ADDS)


@pytest.mark.usefixtures("projects")
def test_variable_and_folder_that_disagree_stop_every_command_but_one_that_reads(
    server: FakeApi, api: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _connect(server, (_SHOP, "https://github.com/acme/shop"))
    monkeypatch.chdir(_make_repository(tmp_path / "clone", "https://github.com/acme/shop"))
    monkeypatch.setenv(VARIABLE, "blog/production")
    assert resolve_environment(api, None, effect=Effect.READS).path == "blog/production"
    assert resolve_project(api, None, effect=Effect.READS).slug == "blog"
    start = (
        "PHAROS_DEFAULT_ENVIRONMENT names the project blog, but the repository of this folder belongs to the project "
        "shop: "
    )
    for effect in (Effect.ADDS, Effect.CHANGES):
        with pytest.raises(CommandFailed) as without_name:
            resolve_environment(api, None, effect=effect)
        assert str(without_name.value) == (
            f"{start}add `--environment blog/production` or `--environment shop/production` to the command."
        )
        with pytest.raises(CommandFailed) as ambiguous:
            resolve_environment(api, "production", effect=effect)
        assert str(ambiguous.value) == (
            f"{start}write blog/production or shop/production instead of 'production'."
        )
        with pytest.raises(CommandFailed) as project:
            resolve_project(api, None, effect=effect)
        assert str(project.value) == f"{start}add `--project blog` or `--project shop` to the command."
        # A name that says it all needs no default.
        assert resolve_environment(api, "shop/production", effect=effect).path == "shop/production"
        assert resolve_environment(api, "staging", effect=effect).path == "shop/staging"
        assert resolve_project(api, "shop", effect=effect).slug == "shop"


@pytest.mark.usefixtures("projects")
def test_the_default_is_noted_on_standard_error(
    server: FakeApi,
    api: Api,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without a terminal too: the log of a script shows where it deployed."""

    def read_notes() -> str:
        shown = capsys.readouterr()
        assert shown.out == ""
        return shown.err

    _connect(server, (_SHOP, "https://github.com/acme/shop"))
    monkeypatch.chdir(_make_repository(tmp_path / "clone", "https://github.com/acme/shop"))
    resolve_environment(api, "production", effect=Effect.ADDS)
    assert read_notes() == "pharos: Using shop (its repository is in this folder).\n"
    resolve_environment(api, "staging", effect=Effect.ADDS)
    resolve_environment(api, "blog/production")
    assert read_notes() == ""
    monkeypatch.setenv(VARIABLE, "shop/staging")
    resolve_environment(api, None)
    assert read_notes() == "pharos: Using shop/staging (PHAROS_DEFAULT_ENVIRONMENT).\n"
    with Api(server.target, is_quiet=True) as quiet:
        resolve_environment(quiet, None)
        resolve_project(quiet, None)
    assert read_notes() == ""


@pytest.mark.usefixtures("projects")
def test_a_connected_folder_decides_and_its_environments_may_still_be_several(
    server: FakeApi, api: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = _make_repository(tmp_path / "clone", "https://example.com/other")
    _connect(server, (_SHOP, str(folder)), (_BLOG, "https://github.com/acme/blog"))
    monkeypatch.chdir(folder)
    assert resolve_project(api, None, effect=Effect.READS).slug == "shop"
    with pytest.raises(
        CommandFailed, match=r"several environments in the project shop: shop/production, shop/sta"
    ):
        resolve_environment(api, None, effect=Effect.READS)


@pytest.mark.usefixtures("projects")
def test_a_folder_that_says_nothing_certain_decides_nothing(
    server: FakeApi, api: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monorepo = "https://github.com/acme/all"
    monkeypatch.chdir(_make_repository(tmp_path / "clone", monorepo))
    cases = [
        page([{"project": project, "url": monorepo} for project in (_SHOP, _BLOG)]),
        page([{"project": _SHOP, "url": "https://gitlab.com/acme/all"}]),
        problem(403, "missing-scope", "The token lacks deploy:read."),
    ]
    for answer in cases:
        server.by_path["/api/v1/repositories"] = answer
        with (
            Api(server.target) as fresh,
            pytest.raises(CommandFailed, match="several projects: blog, shop. Add one"),
        ):
            resolve_project(fresh, None, effect=Effect.READS)
    # Without Git nothing is known either.
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CommandFailed, match="several environments"):
        resolve_environment(api, None, effect=Effect.READS)


def test_one_environment_needs_neither_git_nor_a_list_of_repositories(server: FakeApi, api: Api) -> None:
    server.by_path["/api/v1/projects"] = page([_BLOG])
    server.by_path["/api/v1/repositories"] = Answer(status=500)
    assert resolve_environment(api, None).path == "blog/production"
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://github.com/Acme/shop.git", "github.com/acme/shop"),
        ("https://ada:token@github.com/acme/shop/", "github.com/acme/shop"),
        ("ssh://git@github.com:22/acme/shop", "github.com/acme/shop"),
        ("git@github.com:acme/shop.git", "github.com/acme/shop"),
        ("github.com:/acme/shop", "github.com/acme/shop"),
        ("/srv/Shop.git/", "/srv/Shop.git"),
        ("file:///srv/a%20b", "/srv/a b"),
        ("https://[::1/x", "https://[::1/x"),
        ("", "/"),
    ],
)
def test_urls_of_one_repository_have_one_key(url: str, key: str) -> None:
    assert make_repository_key(url) == key
