"""The disk reserve is created once, and released once."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from control_domain.storage import disk_reserve
from control_domain.storage.disk_reserve import (
    is_disk_full,
    keep_reserve,
    make_space_on_full_disk,
    release_reserve,
)


def test_reserve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not release_reserve(None)
    assert not release_reserve(tmp_path)
    monkeypatch.setattr(disk_reserve, "_BYTES", 8192)
    keep_reserve(tmp_path)
    keep_reserve(tmp_path)
    (made,) = tmp_path.iterdir()
    assert made.stat().st_blocks * 512 >= 8192
    assert release_reserve(tmp_path)
    assert not release_reserve(tmp_path)
    monkeypatch.setattr(disk_reserve, "_MIN_FREE", 2**62)
    keep_reserve(tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_a_half_made_reserve_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fall_short(descriptor: int, _offset: int, _length: int) -> None:
        os.write(descriptor, b"x" * 4096)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", fall_short)
        patch.setattr(disk_reserve, "_MIN_FREE", 0)
        with pytest.raises(OSError, match="No space"):
            keep_reserve(tmp_path)
    assert [*tmp_path.iterdir()] == []
    # A killed process deletes nothing.
    (tmp_path / "disk-reserve.new").write_bytes(b"x")
    assert not release_reserve(tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_a_disk_is_full_with_less_space_than_the_reserve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not is_disk_full(None)
    for free, is_full in ((2**24, False), (2**24 - 1, True)):
        usage = SimpleNamespace(free=free)
        monkeypatch.setattr(disk_reserve.shutil, "disk_usage", lambda _path, found=usage: found)
        assert is_disk_full(tmp_path) is is_full
        (tmp_path / "disk-reserve").touch()
        make_space_on_full_disk(tmp_path)
        assert (tmp_path / "disk-reserve").exists() is not is_full
