"""`chown_tree` gives a whole tree a new owner, its top folder last."""

import os
from pathlib import Path

import pytest

from deployer.processes.confinement import Owner
from deployer.trees.remove_tree import remove_tree
from deployer.trees.walk_tree import chown_tree
from tests.deployer.trees.accomplice import BUILDER
from tests.deployer.trees.test_remove_tree import make_deep

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def test_chown_changes_a_deeply_nested_tree_and_its_top_folder_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders from branch names can be nested deeper than Python's recursion limit."""
    tree = tmp_path / "tree"
    make_deep(tree, 1_500)
    (tree / "file").touch()
    (tree / "link").symlink_to(tmp_path / "elsewhere")
    change, tops = os.chown, set()

    def record_top_owner(*args: object, **kwargs: object) -> None:
        tops.add(tree.stat().st_uid)
        change(*args, **kwargs)  # type: ignore[arg-type]

    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "chown", record_top_owner)
            chown_tree(tree, Owner(BUILDER, BUILDER + 1))
        # The top folder stayed closed during all other changes of owner.
        assert tops == {0}
        paths = (tree, tree / "file", tree / "link", tree / "deep" / "deep")
        assert {(path.lstat().st_uid, path.lstat().st_gid) for path in paths} == {(BUILDER, BUILDER + 1)}
    finally:
        # Pytest's own removal does not go so deep.
        remove_tree(tree)
