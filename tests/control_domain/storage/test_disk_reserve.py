"""The reserve of the disk is made once, and given back once."""

import shutil
from pathlib import Path

import pytest

from control_domain.storage import disk_reserve
from control_domain.storage.disk_reserve import keep_reserve, release_reserve


def test_reserve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not release_reserve(None)
    assert not release_reserve(tmp_path)
    monkeypatch.setattr(disk_reserve, "_BYTES", 8192)
    keep_reserve(tmp_path)
    keep_reserve(tmp_path)
    (made,) = tmp_path.iterdir()
    assert made.stat().st_blocks * 512 >= 8192
    # The cause of a failure is another one: the disk is not full.
    assert not release_reserve(tmp_path)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=100))
    made.with_suffix(".new").touch()
    assert release_reserve(tmp_path)
    assert not release_reserve(tmp_path)
    assert [*tmp_path.iterdir()] == []
    monkeypatch.setattr(disk_reserve, "_MIN_FREE", 2**62)
    keep_reserve(tmp_path)
    assert [*tmp_path.iterdir()] == []
