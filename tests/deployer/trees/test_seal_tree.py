"""Sealing copies a build's output to files that only Pharos can write, and changes nothing else."""

import asyncio
import os
import stat
from pathlib import Path
from threading import Event

import pytest

from deployer.drivers.interface import DeployFailed
from deployer.drivers.local import folders as folders_module
from deployer.drivers.local.folders import Folders
from deployer.identity import Identity
from deployer.processes.confinement import Owner
from deployer.trees import seal_tree as seal_module
from deployer.trees.seal_tree import copy_content
from tests.deployer.trees.accomplice import BUILDER, attempt, chown_to_builder
from tests.deployer.trees.test_remove_tree import make_deep

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
_IS_ROOT = os.geteuid() == 0
_OWNER = Owner(BUILDER, BUILDER) if _IS_ROOT else None


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(Identity("dpl", "here", 1, tmp_path / "folder"))


@pytest.fixture
async def tree(folders: Folders, tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    return await folders.create_artefact("1")


def _write_sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10 * 2**30)
        file.seek(5 * 2**30)
        file.write(b"in the middle")


def _read_middle(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(5 * 2**30)
        return file.read(20)


async def _seal(folders: Folders, tree: Path) -> None:
    if _IS_ROOT:
        chown_to_builder(tree)
    await folders.seal(tree, _OWNER)
    assert folders.names("sealing") == []


async def test_an_open_descriptor_of_the_build_writes_no_sealed_file(folders: Folders, tree: Path) -> None:
    (tree / "server.sh").write_text("approved")
    file, folder = os.open(tree / "server.sh", os.O_RDWR), os.open(tree, os.O_RDONLY)
    await _seal(folders, tree)
    os.pwrite(file, b"evil....", 0)
    assert (tree / "server.sh").read_text() == "approved"
    with pytest.raises(OSError):
        os.open("server.sh", os.O_RDONLY, dir_fd=folder)
    os.close(file)
    os.close(folder)


@as_root
async def test_a_link_swapped_in_during_the_copy_is_not_followed(
    folders: Folders, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o700)
    for name in ("a", "b"):
        (tree / "inner" / name).mkdir(parents=True)
        (tree / "inner" / name / "file").touch()
    descriptors = [os.open(path, os.O_RDONLY) for path in (tree, tree / "inner")]
    swap = f'os.rename("a", "c", src_dir_fd=fds[1], dst_dir_fd=fds[1])\nos.symlink("{victim}", "a", dir_fd=fds[1])'
    copy, tried = seal_module.copy_content, []

    def swap_first(*given: object) -> None:
        tried.append(attempt(swap, *descriptors))
        copy(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(seal_module, "copy_content", swap_first)
    await _seal(folders, tree)
    for descriptor in descriptors:
        os.close(descriptor)
    assert tried == ["PermissionError"] * 2
    assert sorted(os.listdir(tree / "inner")) == ["a", "b"]
    assert stat.S_IMODE(victim.stat().st_mode) == 0o700


async def test_sealing_keeps_content_links_holes_and_times(folders: Folders, tree: Path) -> None:
    (tree / ".git").mkdir()
    (tree / ".git" / "config").touch()
    (tree / "lib" / "empty").mkdir(parents=True)
    (tree / "lib" / "run").write_bytes(b"\x00program" * 1000)
    (tree / "lib" / "run").chmod(0o4755)
    (tree / "same").hardlink_to(tree / "lib" / "run")
    (tree / "link").symlink_to("lib/run")
    os.mkfifo(tree / "pipe")
    _write_sparse(tree / "sparse")
    for path in (tree / "lib" / "run", tree / "lib"):
        os.utime(path, ns=(10**18, 10**18 + 7))
    await _seal(folders, tree)
    assert sorted(os.listdir(tree)) == ["lib", "link", "same", "sparse"]
    run, sparse_found = (tree / "lib" / "run").stat(), (tree / "sparse").stat()
    assert (tree / "lib" / "run").read_bytes() == b"\x00program" * 1000
    assert (tree / "same").stat().st_ino == run.st_ino and run.st_nlink == 2
    assert os.readlink(tree / "link") == "lib/run"
    assert sparse_found.st_size == 10 * 2**30 and sparse_found.st_blocks * 512 < 2**20
    assert _read_middle(tree / "sparse") == b"in the middle" + bytes(7)
    assert run.st_mtime_ns == (tree / "lib").stat().st_mtime_ns == 10**18 + 7
    modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in (tree, *tree.rglob("*"))}
    assert (modes["1"], modes["empty"], modes["sparse"]) == (0o750, 0o750, 0o750 if _IS_ROOT else 0o640)
    assert modes["run"] == 0o750
    if _IS_ROOT:
        assert {(path.lstat().st_uid, path.lstat().st_gid) for path in tree.rglob("*")} == {(0, BUILDER)}


async def test_sealing_of_a_deep_tree_whose_git_folder_is_a_link(
    folders: Folders, tree: Path, tmp_path: Path
) -> None:
    (tmp_path / "kept").touch()
    (tree / ".git").symlink_to(tmp_path / "kept")
    make_deep(tree / "deep", 200)
    before = len(os.listdir("/proc/self/fd"))
    await _seal(folders, tree)
    assert os.listdir(tree) == ["deep"]
    assert (tmp_path / "kept").exists()
    assert len(os.listdir("/proc/self/fd")) == before


@as_root
async def test_a_file_of_another_user_is_refused(folders: Folders, tree: Path) -> None:
    (tree / "own").touch()
    (tree / "put\nthere").touch()
    chown_to_builder(tree)
    os.chown(tree / "put\nthere", 0, 0)
    with pytest.raises(DeployFailed, match=r"has 'put\\nthere' of another user"):
        await folders.seal(tree, _OWNER)
    assert folders.names("sealing") == []
    await folders.remove(tree)


async def test_sealing_fails_after_its_time_limit(
    folders: Folders, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "file").touch()
    monkeypatch.setattr(folders_module, "_SEAL_SECONDS", -1)
    with pytest.raises(DeployFailed, match="could not be copied within"):
        await _seal(folders, tree)
    assert folders.names("sealing") == []


async def test_cancellation_stops_the_copy(
    folders: Folders, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        (tree / str(number)).touch()
    loop, stop, copied = asyncio.get_running_loop(), Event(), []
    copy = seal_module.copy_content

    def cancel_first(*given: object) -> None:
        copied.append(1)
        loop.call_soon_threadsafe(sealing.cancel)
        stop.wait()
        copy(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(seal_module, "copy_content", cancel_first)
    monkeypatch.setattr(folders_module, "Event", lambda: stop)
    if _IS_ROOT:
        chown_to_builder(tree)
    sealing = asyncio.ensure_future(folders.seal(tree, _OWNER))
    with pytest.raises(asyncio.CancelledError):
        await sealing
    assert copied == [1]
    assert folders.names("sealing") == []


def test_a_copy_continues_without_copy_file_range_and_fails_for_a_truncated_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems return 0 from `copy_file_range` before the end of a file."""
    (tmp_path / "source").write_bytes(b"x" * 100_000)
    monkeypatch.setattr(os, "copy_file_range", lambda *_: 0)
    with open(tmp_path / "source", "rb") as source, open(tmp_path / "target", "wb") as target:
        status = os.fstat(source.fileno())
        copy_content(source.fileno(), target.fileno(), status, lambda: None)
        assert (tmp_path / "target").read_bytes() == b"x" * 100_000
        os.truncate(tmp_path / "source", 10)
        with pytest.raises(OSError, match="ended after 10 of 100000 bytes"):
            copy_content(source.fileno(), target.fileno(), status, lambda: None)
