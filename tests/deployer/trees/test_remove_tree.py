"""`remove_tree` removes trees with any content, and nothing outside the tree."""

import os
import socket
from pathlib import Path

import pytest

from deployer.drivers.local.folders import Folders
from deployer.identity import Identity
from deployer.trees import walk_tree
from deployer.trees.remove_tree import remove_tree
from tests.deployer.trees.accomplice import attempt, chown_to_builder

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

_SWAP = """
os.close(os.open("extra", os.O_CREAT | os.O_WRONLY, dir_fd=fds[1]))
os.rename("d1", "away", src_dir_fd=fds[0], dst_dir_fd=fds[0])
os.symlink("{}", "d1", dir_fd=fds[0])
"""


@as_root
async def test_removal_does_not_follow_a_folder_swapped_for_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, victim = tmp_path / "tree", tmp_path / "victim"
    (tree / "d1" / "d2").mkdir(parents=True)
    (victim / "d2").mkdir(parents=True)
    (victim / "d2" / "precious").touch()
    victim.chmod(0o750)
    chown_to_builder(tree)
    descriptors = [os.open(path, os.O_RDONLY) for path in (tree, tree / "d1" / "d2")]
    remove_folder, tried = os.rmdir, []

    def swap_first(path: str, *, dir_fd: int | None = None) -> None:
        if not tried:
            tried.append(attempt(_SWAP.format(victim), *descriptors))
        remove_folder(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "rmdir", swap_first)
    await Folders(Identity("dpl", "here", 1, tmp_path)).remove(tree)
    for descriptor in descriptors:
        os.close(descriptor)
    assert (victim / "d2" / "precious").exists()
    assert victim.stat().st_mode & 0o777 == 0o750
    assert tried == ["PermissionError"]
    assert not tree.exists()


def test_removal_of_a_very_deep_tree(tmp_path: Path) -> None:
    make_deep(tmp_path / "tree", 3_000)
    before = len(os.listdir("/proc/self/fd"))
    remove_tree(tmp_path / "tree")
    assert os.listdir(tmp_path) == []
    assert len(os.listdir("/proc/self/fd")) == before


def test_files_links_and_sockets_are_removed_and_links_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk_tree, "_BATCH", 3)
    kept, tree = tmp_path / "kept", tmp_path / "tree"
    kept.mkdir()
    (kept / "file").touch()
    for folder in (tree / "a" / "b", tree / "c"):
        folder.mkdir(parents=True)
        (folder / "link").symlink_to(kept)
        os.mkfifo(folder / "pipe")
        for number in range(5):
            (folder / str(number)).touch()
    monkeypatch.chdir(tree)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    (tmp_path / "link").symlink_to(kept)
    for name in ("tree", "link", "missing", "missing/inner"):
        remove_tree(tmp_path / name)
    assert os.listdir(tmp_path) == ["kept"]
    assert os.listdir(kept) == ["file"]


def test_removal_of_folders_whose_permissions_a_build_removed(tmp_path: Path) -> None:
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_uid == os.geteuid() and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o001)
    own = tmp_path / "own"
    (own / "tree" / "closed" / "inner").mkdir(parents=True)
    (own / "tree" / "closed" / "inner" / "file").touch()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                for path in (own, *own.rglob("*")):
                    os.chown(path, 65_534, 65_534)
                os.setresgid(65_534, 65_534, 65_534)
                os.setresuid(65_534, 65_534, 65_534)
            for path in ("tree/closed/inner", "tree/closed", "tree"):
                (own / path).chmod(0)
            remove_tree(own / "tree")
        finally:
            os._exit(int((own / "tree").exists()))
    assert os.waitpid(child, 0)[1] == 0
    assert os.listdir(own) == []


def make_deep(folder: Path, levels: int) -> None:
    """Create nested folders whose path exceeds the limit for paths."""
    folder.mkdir()
    current = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("deep", dir_fd=current)
        child = os.open("deep", os.O_RDONLY, dir_fd=current)
        os.close(current)
        current = child
    os.close(current)
