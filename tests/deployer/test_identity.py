"""A deployer is the same after a restart, and is one at a time."""

import os
import stat
from pathlib import Path

import pytest

from deployer.identity import USERS, FolderInUse, owning


def test_it_keeps_its_id_and_its_users(tmp_path: Path) -> None:
    folder = tmp_path / "deployer"
    with owning(folder) as first:
        pass
    with owning(folder) as second:
        assert (second.id, second.first_uid) == (first.id, first.first_uid)
    with owning(tmp_path / "another") as other:
        assert (other.id, other.first_uid) != (first.id, first.first_uid)
    assert first.first_uid >= 100_000_000 and first.first_uid + USERS < 2**31


def test_one_at_a_time(tmp_path: Path) -> None:
    with owning(tmp_path), pytest.raises(FolderInUse, match="--folder"), owning(tmp_path):
        pass
    with owning(tmp_path):
        pass


def test_others_may_enter_its_folder_and_list_nothing(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with owning(tmp_path / "deployer") as identity:
            assert stat.S_IMODE(identity.folder.stat().st_mode) == 0o711
            for name in os.listdir(identity.folder):
                assert not stat.S_IMODE((identity.folder / name).stat().st_mode) & 0o077
    finally:
        os.umask(before)
