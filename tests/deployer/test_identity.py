"""A deployer keeps its identity over restarts, and has one process at a time."""

import asyncio
import os
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from deployer import identity as identity_module
from deployer.drivers.interface import DeployFailed, Tenancy
from deployer.drivers.local import layout
from deployer.drivers.local.folders import Folders
from deployer.identity import MAX_RANGES, USERS_PER_RANGE, FolderInUse, NoMoreUsers, hold_identity
from deployer.processes.confinement import Owner
from deployer.processes.start_process import has_namespaces
from deployer.write_atomically import write_atomically
from tests.deployer.processes.sandbox import PYTHON, make_sandbox

_OWNER = """
import sys
from pathlib import Path
from deployer.identity import hold_identity
with hold_identity(Path(sys.argv[1])) as identity:
    print(identity.id, flush=True)
    sys.stdin.read()
"""


def test_a_deployer_keeps_its_id_and_its_users(tmp_path: Path) -> None:
    folder = tmp_path / "deployer"
    with hold_identity(folder) as first:
        pass
    with hold_identity(folder) as second:
        assert (second.id, second.first_uid) == (first.id, first.first_uid)
    with hold_identity(tmp_path / "another") as other:
        assert (other.id, other.first_uid) != (first.id, first.first_uid)
    assert first.first_uid >= 100_000_000 and first.first_uid + USERS_PER_RANGE < 2**31


@pytest.mark.parametrize("damaged", ["identity.json", "identity.copy.json"])
@pytest.mark.parametrize("content", [None, "", "{}", '{"id": 1', "[]"])
def test_an_identity_survives_the_loss_of_one_file(tmp_path: Path, damaged: str, content: str | None) -> None:
    with hold_identity(tmp_path) as first:
        pass
    (tmp_path / "artefacts").mkdir()
    (tmp_path / damaged).unlink()
    if content is not None:
        (tmp_path / damaged).write_text(content)
    with hold_identity(tmp_path) as second:
        assert second == first
    assert (tmp_path / "identity.json").read_text() == (tmp_path / "identity.copy.json").read_text()


def test_a_used_folder_without_identity_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "artefacts").mkdir()
    with (
        pytest.raises(
            FolderInUse, match=r"identity.json and identity.copy.json .* Restore one of the two files"
        ),
        hold_identity(tmp_path),
    ):
        pass


def test_a_range_of_users_that_could_not_be_stored_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    with hold_identity(tmp_path) as identity:
        with monkeypatch.context() as patch:
            patch.setattr("deployer.identity.write_atomically", fail)
            for _ in range(2):
                with pytest.raises(OSError, match="No space left"):
                    identity.take_user(USERS_PER_RANGE)
        assert identity.find_user(USERS_PER_RANGE) is None
        user = identity.take_user(USERS_PER_RANGE)
    with hold_identity(tmp_path) as again:
        assert again.find_user(USERS_PER_RANGE) == user


def test_a_folder_has_one_deployer_at_a_time(tmp_path: Path) -> None:
    with (
        hold_identity(tmp_path),
        pytest.raises(FolderInUse, match="set PHAROS_DEPLOY_FOLDER"),
        hold_identity(tmp_path),
    ):
        pass
    with hold_identity(tmp_path):
        pass


def test_a_copy_of_a_folder_is_refused_while_its_deployer_runs(tmp_path: Path) -> None:
    with hold_identity(tmp_path / "first"):
        shutil.copytree(tmp_path / "first", tmp_path / "copy")
        expected = f"{tmp_path}/copy and {tmp_path}/first are copies .* process {os.getpid()} runs .* Stop that process"
        with pytest.raises(FolderInUse, match=expected), hold_identity(tmp_path / "copy"):
            pass
    with hold_identity(tmp_path / "copy") as copy:
        pass
    # Another process, and a process that was killed.
    command = [sys.executable, "-c", _OWNER, str(tmp_path / "first")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None and other.stdout is not None
        assert other.stdout.readline() == f"{copy.id}\n"
        with pytest.raises(FolderInUse, match=f"process {other.pid} runs"), hold_identity(tmp_path / "copy"):
            pass
        other.kill()
    with hold_identity(tmp_path / "copy"):
        pass


_CLAIM = "import os, sys; os.memfd_create('pharos-deployer-{id}'); print(flush=True); sys.stdin.read()"


@pytest.mark.parametrize("is_own", [True, False])
def test_a_process_with_a_mark_of_the_deployer_cannot_claim_its_identity(
    tmp_path: Path, is_own: bool
) -> None:
    """If Pharos is not root, applications run as its own user. This test uses no namespaces."""
    with hold_identity(tmp_path) as identity:
        pass
    mark = f"{identity.id if is_own else 'dpl_outer'}/1/1/web/1/20000"
    with subprocess.Popen(
        [sys.executable, "-c", _CLAIM.format(id=identity.id)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PHAROS_INSTANCE": mark},
    ) as claiming:
        assert claiming.stdin is not None and claiming.stdout is not None
        assert claiming.stdout.readline() == b"\n"
        if is_own:
            with hold_identity(tmp_path):
                pass
        else:
            # A deployer that runs as an application of another deployer.
            with pytest.raises(FolderInUse, match=f"process {claiming.pid} runs"), hold_identity(tmp_path):
                pass
        claiming.stdin.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has other users")
def test_an_identity_claim_of_an_application_is_ignored(tmp_path: Path) -> None:
    with hold_identity(tmp_path) as identity:
        pass
    command = ["/usr/bin/env", "python3", "-c", _CLAIM.format(id=identity.id)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        user=identity.first_uid + 3,
        group=identity.first_uid + 1,
    ) as application:
        assert application.stdin is not None and application.stdout is not None
        assert application.stdout.readline() == b"\n"
        with hold_identity(tmp_path):
            pass
        application.stdin.close()


async def test_an_identity_claim_of_an_application_in_namespaces_is_ignored(tmp_path: Path) -> None:
    """If Pharos is not root, the application has the user of Pharos, and may remove its mark. In this test its user is
    not one of the deployer's."""
    if not await has_namespaces():
        pytest.skip("this kernel grants no namespaces")
    with hold_identity(tmp_path / "deployer") as identity:
        pass
    place = replace(make_sandbox(tmp_path / "place"), mark=f"{identity.id}/1/1/web/1/20000")
    reader, writer = os.pipe()
    claim = _CLAIM.format(id=identity.id).replace("sys.stdin.read()", "time.sleep(600)")
    process = place.start(f'exec env -i {PYTHON} -c "import time; {claim}"', writer)
    os.close(writer)
    try:
        assert await asyncio.to_thread(os.read, reader, 1) == b"\n"
        with hold_identity(tmp_path / "deployer"):
            pass
    finally:
        os.close(reader)
        await process.end(0)


def test_files_are_on_the_disk_before_they_are_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        done.append(("fsync", os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    def replaced(fresh: Path, path: Path) -> None:
        done.append(("replace", str(path)))
        replace(fresh, path)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    write_atomically(tmp_path / "database.json", "{}")
    assert done == [
        ("fsync", str(tmp_path / "database.new")),
        ("replace", str(tmp_path / "database.json")),
        ("fsync", str(tmp_path)),
    ]
    assert (tmp_path / "database.json").read_text() == "{}"


def test_other_users_can_enter_the_folder_but_not_list_it(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with hold_identity(tmp_path / "deployer") as identity:
            assert stat.S_IMODE(identity.folder.stat().st_mode) == 0o711
            for name in os.listdir(identity.folder):
                assert not stat.S_IMODE((identity.folder / name).stat().st_mode) & 0o077
    finally:
        os.umask(before)


def test_every_environment_number_has_a_user_of_its_own(tmp_path: Path) -> None:
    """Users of the first range stay the same when a deployer takes another range."""
    few = [0, 1, USERS_PER_RANGE - 1, USERS_PER_RANGE, 2 * USERS_PER_RANGE - 1, 5 * USERS_PER_RANGE]
    with hold_identity(tmp_path / "a") as identity:
        assert identity.find_user(USERS_PER_RANGE) is None
        users = [identity.take_user(number) for number in few]
        assert users[:3] == [identity.first_uid + number for number in few[:3]]
        assert len(set(users)) == len(few) and all(100_000_000 <= user < 2**31 for user in users)
        ranges = [identity.first_uid, *identity.further_uids]
        assert len(set(ranges)) == len(ranges) == 6
        with pytest.raises(NoMoreUsers):
            identity.take_user(MAX_RANGES * USERS_PER_RANGE)
    with hold_identity(tmp_path / "a") as again:
        assert [again.find_user(number) for number in few] == users


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has other users")
def test_environments_and_projects_beyond_a_range_of_users_have_owners(tmp_path: Path) -> None:
    with hold_identity(tmp_path / "a") as identity:
        folders = Folders(identity)
        tenancies = [
            Tenancy(environment, project, "env_x", ("x.localhost",), "x")
            for environment, project in ((1, 1), (49_999, 2), (50_000, 99_999), (123_456, 100_000))
        ]
        owners = [owner for each in tenancies for owner in (folders.builder(each), folders.runner(each))]
        assert None not in owners
        assert len({owner.uid for owner in owners if owner is not None}) == len(owners)
        first = folders.runner(tenancies[0])
        assert first == Owner(identity.first_uid + 3, identity.first_uid + 1)
        for each in tenancies:
            runner = folders.runner(each)
            assert runner is not None and folders.runner_uid(each.environment_id) == runner.uid
        # A forged mark takes no users.
        assert folders.runner_uid(10**12) is None
        with pytest.raises(DeployFailed, match="up to number 49,999,999"):
            folders.runner(Tenancy(50_000_000, 1, "env_x", ("x.localhost",), "x"))


def test_used_folder_is_recognized_by_the_folders_of_the_driver() -> None:
    assert identity_module._APPLICATION_DATA == (layout.ARTEFACTS, layout.HOMES)
