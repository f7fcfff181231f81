"""The webhook secrets of repositories in the credentials file."""

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from operator_cli.credentials import read_credentials, save_repository
from operator_cli.errors import CommandFailed

OWN: dict[str, Any] = {"id": 1, "kind": "github", "secret": "of the first start"}
CREDENTIALS = {"base_url": "http://127.0.0.1/api", "project_id": "prj_own", "repository": OWN}


def _repository(number: int, secret: str = "secret") -> dict[str, Any]:
    return {"id": number, "kind": "gitlab", "secret": secret}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "credentials.json").write_text(json.dumps(CREDENTIALS))
    return tmp_path


@pytest.mark.parametrize("content", [b"", b'{"base_url', b"[]", b"\xff"])
def test_a_damaged_file_is_named_with_what_to_do(data: Path, content: bytes) -> None:
    (data / "credentials.json").write_bytes(content)
    with pytest.raises(
        CommandFailed,
        match="credentials.json is damaged. Delete it and restart `pharos up`, which creates a new "
        "token and a new key.",
    ):
        read_credentials(data)


def test_the_repository_of_another_project_replaces_no_other(data: Path) -> None:
    save_repository(data, _repository(2), "prj_two", is_new=True)
    save_repository(data, _repository(3), "prj_three", is_new=True)
    others = {"prj_two": _repository(2), "prj_three": _repository(3)}
    assert read_credentials(data) == {**CREDENTIALS, "repositories": others}
    assert stat.S_IMODE((data / "credentials.json").stat().st_mode) == 0o600


def test_the_repository_of_the_credentials_project_is_saved_as_repository(data: Path) -> None:
    save_repository(data, _repository(2), "prj_own", is_new=True)
    assert read_credentials(data) == {**CREDENTIALS, "repository": _repository(2)}


def test_a_new_secret_replaces_the_one_of_the_same_repository(data: Path) -> None:
    save_repository(data, _repository(2), "prj_two", is_new=True)
    save_repository(data, _repository(2, "new"), "prj_two", is_new=False)
    save_repository(data, {**OWN, "secret": "new"}, "prj_own", is_new=False)
    # The repository of another project, where an older version saved it.
    save_repository(data, {**OWN, "secret": "newer"}, "prj_nine", is_new=False)
    own, others = {**OWN, "secret": "newer"}, {"prj_two": _repository(2, "new")}
    assert read_credentials(data) == {**CREDENTIALS, "repository": own, "repositories": others}


@pytest.mark.parametrize("project", ["prj_own", "prj_two", "prj_nine"])
def test_a_new_secret_of_an_unknown_repository_is_not_saved(data: Path, project: str) -> None:
    save_repository(data, _repository(2), "prj_two", is_new=True)
    before = read_credentials(data)
    save_repository(data, _repository(9), project, is_new=False)
    assert read_credentials(data) == before


def test_concurrent_commands_lose_no_repository(data: Path) -> None:
    def keep(number: int) -> None:
        save_repository(data, _repository(number), f"prj_{number}", is_new=True)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(keep, range(2, 34)))
    assert len(read_credentials(data)["repositories"]) == 32
    assert [file.name for file in data.iterdir()] == ["credentials.json"]


def test_missing_credentials_are_reported(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(CommandFailed, match="does not exist"):
            save_repository(folder, _repository(2), "prj_two", is_new=True)
