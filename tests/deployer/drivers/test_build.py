"""Reads of files in a work tree: links are not followed, pipes do not block, and no descriptor stays open."""

import os
import socket
from contextlib import closing
from pathlib import Path

import pytest

from deployer.drivers.interface import DeployFailed
from deployer.drivers.local.build import REPOSITORY_DOCUMENT, _read_repository_document, read_tree_file


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_other_kinds_of_files_are_refused_and_no_descriptor_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees = {name: tmp_path / name for name in ("folder", "link", "pipe", "socket", "loop", "missing")}
    for tree in trees.values():
        tree.mkdir()
    (trees["folder"] / REPOSITORY_DOCUMENT).mkdir()
    (trees["link"] / REPOSITORY_DOCUMENT).symlink_to("/etc/passwd")
    (trees["loop"] / REPOSITORY_DOCUMENT).symlink_to(REPOSITORY_DOCUMENT)
    os.mkfifo(trees["pipe"] / REPOSITORY_DOCUMENT)
    monkeypatch.chdir(trees["socket"])
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(REPOSITORY_DOCUMENT)
        before = _descriptors()
        for _ in range(20):
            for name, tree in trees.items():
                with pytest.raises(DeployFailed) as refused:
                    _read_repository_document(tree)
                is_absent = name in ("missing", "socket")
                message = (
                    "There is no workflow document" if is_absent else f"{REPOSITORY_DOCUMENT} is no file."
                )
                assert str(refused.value).startswith(message), name
        assert _descriptors() == before


def test_a_large_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with open(path, "wb") as file:
        file.truncate(2**40)
    before = _descriptors()
    assert read_tree_file(path, 1000) == bytes(1000)
    assert _descriptors() == before
