"""The build's user fetches submodules, only over https and ssh."""

from pathlib import Path

import pytest

from deployer.checkout.failures import CheckOutFailed
from tests.deployer.checkout.conftest import Work, make_work
from tests.deployer.checkout.git_host import GitHost
from tests.deployer.checkout.owner import Owner, StepFailed


def add(work: Work, path: str, url: str, commit: str, more: str = "") -> str:
    """Commit a submodule by hand: `git submodule add` would fetch it."""
    with (work.folder / ".gitmodules").open("a") as modules:
        modules.write(f'[submodule "{path}"]\n\tpath = {path}\n\turl = "{url}"\n{more}')
    work.git("add", ".gitmodules")
    work.git("update-index", "--add", "--cacheinfo", f"160000,{commit},{path}")
    work.git("commit", "--quiet", "-m", "a submodule")
    return work.push()


async def test_nested_submodules_are_fetched(work: Work, owner: Owner, host: GitHost, tmp_path: Path) -> None:
    lib, inner = make_work(tmp_path, "lib"), make_work(tmp_path, "inner")
    inside = inner.commit(i="1")
    lib.commit(l="1")
    within = add(lib, "vendor/inner", "../inner.git", inside)
    work.commit(a="1")
    add(work, "lib", f"{host.url}/lib.git", within)
    revision = add(work, "beside", "../inner.git", inside)
    await owner.check_out(f"{host.url}/shop.git", revision)
    assert owner.files() >= {"a", "lib/l", "lib/vendor/inner/i", "beside/i"}
    assert (owner.folder / ".git/modules/lib/shallow").exists()
    assert "warning" not in owner.printed


async def test_a_submodule_is_fetched_with_history_if_its_host_serves_no_single_commits(
    work: Work, owner: Owner, host: GitHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deployer.checkout import check_out

    # Protocol 0 cannot fetch single commits.
    command = check_out._UPDATE_SUBMODULES.replace("version=2", "version=0")
    monkeypatch.setattr(check_out, "_UPDATE_SUBMODULES", command)
    lib = make_work(tmp_path, "lib")
    first = lib.commit(l="1")
    last = lib.commit(l="2")
    work.commit(a="1")
    add(work, "second", f"{host.url}/lib.git", last)
    revision = add(work, "lib", f"{host.url}/lib.git", first)
    await owner.check_out(f"{host.url}/shop.git", revision)
    assert (owner.folder / "lib" / "l").read_text() == "1"
    assert (owner.folder / "second" / "l").read_text() == "2"
    assert "Not all submodules could be fetched without their history" in owner.printed


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c touch% /tmp/pharos-ran",
        "file:///srv/x.git",
        "/srv/x.git",
        "-u./evil",
        "--upload-pack=id",
        "http://shop.example/x.git",
        "git://shop.example/x.git",
        "ssh://-oProxyCommand=id/x",
        "git@-oProxyCommand=id:x",
        "x.git",
    ],
)
async def test_submodules_with_other_urls_are_refused(work: Work, owner: Owner, url: str) -> None:
    revision = add(work, "lib", url, work.commit(a="1"))
    with pytest.raises(
        CheckOutFailed,
        match="^The submodule 'lib' is at '.*': submodules are fetched only over https and ssh",
    ):
        await owner.check_out(work.url, revision)
    assert owner.commands == []


async def test_a_relative_url_is_refused_for_a_repository_on_this_machine(work: Work, owner: Owner) -> None:
    revision = add(work, "lib", "../lib.git", work.commit(a="1"))
    with pytest.raises(
        CheckOutFailed, match="^The submodule 'lib' is at '../lib.git', next to the repository"
    ):
        await owner.check_out(work.url, revision)


async def test_a_password_in_a_refused_url_is_not_reported(work: Work, owner: Owner) -> None:
    revision = add(work, "lib", "http://ada:s3cret@shop.example/x.git", work.commit(a="1"))
    with pytest.raises(CheckOutFailed) as failed:
        await owner.check_out(work.url, revision)
    assert "s3cret" not in str(failed.value)


async def test_a_submodule_that_is_updated_by_a_program_is_refused(work: Work, owner: Owner) -> None:
    revision = add(
        work, "lib", "https://shop.example/x.git", work.commit(a="1"), "\tupdate = !touch /tmp/pharos-ran\n"
    )
    with pytest.raises(CheckOutFailed, match="^The submodule 'lib' is to be updated by a program"):
        await owner.check_out(work.url, revision)


async def test_a_submodule_name_that_leads_out_of_the_repository_is_refused(work: Work, owner: Owner) -> None:
    (work.folder / ".gitmodules").write_text(
        '[submodule "../../x"]\n\tpath = lib\n\turl = https://shop.example/x.git\n'
    )
    revision = work.commit(a="1")
    with pytest.raises(CheckOutFailed, match="made to do harm"):
        await owner.check_out(work.url, revision)


async def test_a_link_named_gitmodules_is_refused(work: Work, owner: Owner) -> None:
    target = work.git("hash-object", "-w", "--stdin", stdin="a")
    tree = work.git("mktree", stdin=f"120000 blob {target}\t.gitmodules\n")
    revision = work.git("commit-tree", tree, "-m", "hostile")
    work.git("push", "--quiet", "origin", f"{revision}:refs/heads/main")
    with pytest.raises(CheckOutFailed, match="made to do harm"):
        await owner.check_out(work.url, revision)


async def test_malformed_gitmodules_are_reported(work: Work, owner: Owner) -> None:
    (work.folder / ".gitmodules").write_text("[submodule\n")
    with pytest.raises(CheckOutFailed, match=r"^Git cannot read .gitmodules|made to do harm"):
        await owner.check_out(work.url, work.commit(a="1"))


async def test_a_nested_submodule_with_a_local_url_is_refused(
    work: Work, owner: Owner, host: GitHost, tmp_path: Path
) -> None:
    lib, inner = make_work(tmp_path, "lib"), make_work(tmp_path, "inner")
    inside = inner.commit(i="1")
    within = add(lib, "inner", str(inner.bare), lib.commit(l="1") and inside)
    work.commit(a="1")
    revision = add(work, "lib", f"{host.url}/lib.git", within)
    with pytest.raises(StepFailed, match="transport 'file' not allowed"):
        await owner.check_out(f"{host.url}/shop.git", revision)


async def test_a_link_out_of_a_submodule_is_refused(
    work: Work, owner: Owner, host: GitHost, tmp_path: Path
) -> None:
    lib = make_work(tmp_path, "lib")
    lib.link("up", "../..")
    work.commit(a="1")
    revision = add(work, "lib", f"{host.url}/lib.git", lib.commit(l="1"))
    with pytest.raises(CheckOutFailed, match="'lib/up' leads out"):
        await owner.check_out(f"{host.url}/shop.git", revision)
