"""`inspect_tree` refuses links out of the work tree, and accepts links within it."""

import os
import socket
from pathlib import Path

import pytest

from deployer.checkout import inspect_tree as inspecting
from deployer.checkout.failures import CheckOutFailed
from deployer.checkout.inspect_tree import inspect_tree
from tests.deployer.checkout.conftest import Work
from tests.deployer.checkout.owner import Owner


@pytest.mark.parametrize(
    ("links", "named"),
    [
        ({"passwd": "/etc/passwd"}, "passwd"),
        ({"up": "../../.."}, "up"),
        ({"src/deep/up": "../../../x"}, "src/deep/up"),
        ({"down": "src/../../x"}, "down"),
        ({"a": "b/c", "b": "d", "d/c": "../.."}, "a|d/c"),
        ({"one": "dir", "dir": "src/deep", "two": "one/../../../x"}, "two"),
        ({"later": "not-there/../../x"}, "later"),
    ],
)
async def test_a_link_that_leads_out_is_refused(
    work: Work, owner: Owner, links: dict[str, str], named: str
) -> None:
    for path, target in links.items():
        work.link(path, target)
    revision = work.commit(**{"src/deep/file": "1"})
    with pytest.raises(
        CheckOutFailed, match=f"^The symbolic link '(?:{named})' leads out of the repository, to '"
    ):
        await owner.check_out(work.url, revision)


async def test_links_within_the_tree_are_kept(work: Work, owner: Owner) -> None:
    links = {
        "a": "src/file",
        "src/up": "../src/deep/../file",
        "b": "c",
        "c": "b",
        "d": "src/deep",
        "later": "dist/x",
    }
    links |= {"e": "d/../up", "self": ".", "round": "self/self/self/a", "src/deep/top": "../.."}
    for path, target in links.items():
        work.link(path, target)
    await owner.check_out(work.url, work.commit(**{"src/file": "1", "src/deep/file": "2"}))
    assert {path: os.readlink(owner.folder / path) for path in links} == links


def test_pipes_and_sockets_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CheckOutFailed, match="'pipe' is neither a file nor a folder"):
        inspect_tree(tmp_path)
    (tmp_path / "pipe").unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "listener"))
        with pytest.raises(CheckOutFailed, match="'listener' is neither"):
            inspect_tree(tmp_path)


def test_link_resolution_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The real limit takes seconds of CPU to reach.
    assert inspecting._MAX_STEPS == 5_000_000
    monkeypatch.setattr(inspecting, "_MAX_STEPS", 500_000)
    for number in range(300):
        (tmp_path / f"l{number}").symlink_to("./" * 2000 + f"l{number + 1}")
    with pytest.raises(CheckOutFailed, match="more symbolic links than can be followed"):
        inspect_tree(tmp_path)


async def test_a_folder_of_the_maximum_depth_is_inspected(work: Work, owner: Owner) -> None:
    deep = "/".join(["d" * 200] * 15)
    await owner.check_out(work.url, work.commit(**{f"{deep}/file": "1"}))
    assert len(owner.files()) == 1


def test_too_many_files_are_refused_in_submodules_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspecting, "MAX_FILES", 3)
    for number in range(3):
        (tmp_path / f"f{number}").touch()
    inspect_tree(tmp_path)
    (tmp_path / "one-more").touch()
    with pytest.raises(CheckOutFailed, match="more than 500,000 files"):
        inspect_tree(tmp_path)
