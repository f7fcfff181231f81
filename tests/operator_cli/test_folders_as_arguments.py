"""`pharos deploy` and `pharos repository connect` with a folder of this machine."""

import argparse
import dataclasses
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from operator_cli.api.client import Api
from operator_cli.deployments.deploy import _find_target
from operator_cli.errors import CommandFailed
from operator_cli.repositories.repository import _connect
from tests.support.fake_api import Answer, FakeApi, page, running_fake_api

_SHOP: dict[str, Any] = {
    "id": "prj_0123456789shop",
    "slug": "shop",
    "name": "shop",
    "environments": [{"id": "env_0123456789", "slug": "production", "name": "production"}],
}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    monkeypatch.chdir(tmp_path)
    with running_fake_api() as running:
        running.by_path["/api/v1/projects"] = page([_SHOP])
        running.by_path[f"/api/v1/projects/{_SHOP['id']}/repository"] = Answer(
            201, {"data": {"webhook": None}}
        )
        yield running


def test_a_deploy_of_a_folder_says_what_to_do(server: FakeApi, tmp_path: Path) -> None:
    (tmp_path / "it's").mkdir()
    with Api(server.target) as api:
        assert _find_target(api, None).path == "shop/production"
        for name in (".", "it's"):
            with pytest.raises(
                CommandFailed, match=" is a folder. .* takes the name of an environment"
            ) as failed:
                _find_target(api, name)
            assert failed.value.exit_status == 5
        assert str(failed.value).endswith(f"""connect '{tmp_path}/it'"'"'s'`.""")
        with pytest.raises(CommandFailed, match="no environment 'elsewhere'"):
            _find_target(api, "elsewhere")
        # The name of an environment comes first.
        (tmp_path / "production").mkdir()
        assert _find_target(api, "production").path == "shop/production"


def _connect_url(server: FakeApi, url: str, *, is_local: bool) -> Any:
    """Return the URL that the installation gets."""
    target = dataclasses.replace(server.target, data=Path(".pharos") if is_local else None)
    arguments = argparse.Namespace(
        url=url, kind=None, branch=None, project=None, secret_file=None, secret_kind=None
    )
    with Api(target) as api:
        _connect(api, arguments)
    return server.requests[-1].body["url"]


def test_a_folder_is_connected_by_its_absolute_path(server: FakeApi, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", "shop"], check=True)
    subprocess.run(["git", "init", "--quiet", "--bare", "bare.git"], check=True)
    for url in ("./shop", "./bare.git", f"{tmp_path}/shop"):
        assert _connect_url(server, url, is_local=True) == os.path.abspath(url)
    for url in ("https://github.com/acme/shop", "git@github.com:acme/shop.git"):
        assert _connect_url(server, url, is_local=True) == url


def test_a_folder_without_a_repository_is_refused_on_this_machine_only(
    server: FakeApi, tmp_path: Path
) -> None:
    with pytest.raises(CommandFailed, match="is not a Git repository. Make it one"):
        _connect_url(server, ".", is_local=True)
    assert _connect_url(server, ".", is_local=False) == str(tmp_path)
    # The deployer's machine may have what this one has not.
    assert _connect_url(server, "/srv/nowhere", is_local=True) == "/srv/nowhere"
