"""What a command is and sees, told by the command itself."""

import asyncio
import json
import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deployer.processes import launcher, mounts
from deployer.processes.confinement import MARK_VARIABLE, build_search_path
from deployer.processes.run_step import StepFailed
from deployer.processes.start_process import has_namespaces
from tests.deployer.processes.sandbox import PYTHON, Sandbox, make_sandbox

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who gives processes to other users")


def _status(text: str) -> dict[str, str]:
    return {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}


async def test_no_rights_are_left(sandbox: Sandbox) -> None:
    told = _status(await sandbox.run("cat /proc/self/status"))
    assert {told[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
    assert told["NoNewPrivs"] == "1"
    # Signals: nothing ignored, nothing blocked, but for the two that the C library keeps to itself (32 and 33), which
    # no program can set back.
    kept = 1 << 31 | 1 << 32
    assert [int(told[name], 16) & ~kept for name in ("SigIgn", "SigBlk")] == [0, 0]


@as_root
async def test_it_is_its_owner_and_in_no_other_group(sandbox: Sandbox) -> None:
    told = _status(await sandbox.run("cat /proc/self/status"))
    owner = sandbox.confinement.owner
    assert owner is not None
    assert told["Uid"].split() == [str(owner.uid)] * 4
    assert told["Gid"].split() == [str(owner.gid)] * 4
    assert told["Groups"] == ""


@as_root
async def test_a_set_user_id_file_gives_nothing(sandbox: Sandbox) -> None:
    assert "not permitted" in await sandbox.run(
        "cp /bin/cat own && chmod u+s own; su -c id 2>&1 || echo not permitted"
    )
    with pytest.raises(StepFailed):
        await sandbox.run(f"{sys.executable} -c 'import os; os.setuid(0)'")


@as_root
async def test_the_folder_is_read_only_for_a_release(sandbox: Sandbox) -> None:
    assert await sandbox.run("pwd; echo built > result; cat result") == "/srv/app\nbuilt\n"
    release = sandbox.with_confinement(is_writable=False)
    assert "Read-only" in await release.run(
        "cat result; echo x > result || chmod 600 result || mkdir y || true"
    )
    assert (sandbox.folder / "result").read_text() == "built\n"
    # As others of its group must not read what it makes by default.
    assert (sandbox.folder / "result").stat().st_mode & 0o777 == 0o640


@as_root
async def test_the_rest_of_the_machine_is_read_only(sandbox: Sandbox, tmp_path: Path) -> None:
    """Also what everybody may write, and what is the owner's own elsewhere."""
    owner = sandbox.confinement.owner
    assert owner is not None
    elsewhere = Path(f"/var/lib/pharos-test-{owner.uid}")
    elsewhere.mkdir(mode=0o777)
    try:
        os.chown(elsewhere, owner.uid, owner.gid)
        told = await sandbox.run(
            f"touch {elsewhere}/x 2>&1 || true; touch /srv/x 2>&1 || true; touch ~/x && echo home"
        )
        assert told.count("Read-only file system") == 2
        assert told.endswith("home\n")
        assert list(elsewhere.iterdir()) == []
    finally:
        elsewhere.rmdir()


@as_root
async def test_files_of_root_are_not_read(sandbox: Sandbox, tmp_path: Path) -> None:
    secret = Path(f"/var/lib/pharos-test-{os.getpid()}")
    secret.touch(mode=0o600)
    try:
        with pytest.raises(StepFailed):
            await sandbox.run(f"cat {secret} /etc/shadow")
    finally:
        secret.unlink()


@as_root
async def test_what_is_hidden_is_empty(sandbox: Sandbox, tmp_path: Path) -> None:
    """Folders, files, what holds the work tree itself, and what there is not."""
    data = Path(f"/var/lib/pharos-test-{os.getpid()}")
    data.mkdir(mode=0o755)
    try:
        (data / "key").write_text("secret")
        (data / "open").mkdir()
        (data / "open" / "file").write_text("secret")
        hidden = sandbox.with_confinement(hidden=(sandbox.path, data / "key", data / "open", data / "none"))
        told = await hidden.run(
            f"cat {data}/key; ls -A {data}/open; ls -A {sandbox.path} 2>&1 || true; echo x > y; ls"
        )
        assert "secret" not in told
        assert told.endswith("y\n")
        whole = sandbox.with_confinement(hidden=(data, sandbox.path))
        assert await whole.run(f"ls -A {data}; ls") == "y\n"
    finally:
        for each in sorted(data.rglob("*"), reverse=True):
            each.rmdir() if each.is_dir() else each.unlink()
        data.rmdir()


@as_root
async def test_folders_may_lie_where_others_are_shown(tmp_path: Path) -> None:
    path = Path(f"/srv/pharos-test-{os.getpid()}")
    try:
        sandbox = make_sandbox(path)
        assert await sandbox.run("echo x > y; ls; ls /srv; ls ~") == "y\napp\nhome\n"
        assert (sandbox.folder / "y").exists()
    finally:
        shutil.rmtree(path)


@as_root
async def test_temporary_files_are_its_own(sandbox: Sandbox) -> None:
    told = await sandbox.run(
        "for d in /tmp /var/tmp /dev/shm; do echo x > $d/pharos-test; ls -A $d; done; echo $TMPDIR"
    )
    assert told == "pharos-test\n" * 3 + "/tmp\n"
    assert not any(Path(folder, "pharos-test").exists() for folder in ("/tmp", "/var/tmp", "/dev/shm"))
    assert "x" not in await sandbox.run("cat /tmp/* 2>&1 || true; ls -A /dev/shm")


@as_root
async def test_temporary_files_have_a_limit(sandbox: Sandbox) -> None:
    await sandbox.run("fallocate --length 100M /tmp/small")
    with pytest.raises(StepFailed):
        await sandbox.run("fallocate --length 600M /tmp/big")


@as_root
async def test_the_processes_of_others_are_not_seen(sandbox: Sandbox) -> None:
    """Not even their command lines."""
    seen = (await sandbox.run("cd /proc && echo [0-9]*")).split()
    assert set(map(int, seen)) <= {1, 2}
    assert (await sandbox.run("exec cat /proc/1/cmdline")).startswith("sleep\0")


async def test_the_environment_is_what_was_given(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of ours; what is given wins over all but the mark; and bytes stay what they are."""
    monkeypatch.setenv("PHAROS_OWN_SECRET", "ours")
    text = "two\nlines, 'quotes', \"more\", $HOME, ü \udcff"
    sandbox.variables = {
        "TEXT": text,
        "LANG": "de_DE.UTF-8",
        MARK_VARIABLE: "forged",
        "PYTHONPATH": "/x",
        "EMPTY": "",
    }
    heard = (await _environment(sandbox)).split("\0")
    told = dict(each.split("=", 1) for each in heard if each)
    assert told.pop("HOME") in (mounts.HOME_FOLDER, str(sandbox.confinement.home))
    told.pop("PWD", None)
    assert told == {
        **sandbox.variables,
        MARK_VARIABLE: sandbox.mark,
        "TMPDIR": "/tmp",
        "PATH": build_search_path(),
    }


async def _environment(sandbox: Sandbox) -> str:
    reader, writer = os.pipe()
    process = sandbox.start("cat /proc/$$/environ", writer)
    os.close(writer)
    told = await asyncio.to_thread(_read_all, reader)
    assert await process.wait() == 0
    await process.end(0)
    return told


def _read_all(reader: int) -> str:
    with open(reader, errors="surrogateescape") as file:
        return file.read()


async def test_variables_are_in_no_command_line(sandbox: Sandbox, null_output: int) -> None:
    """From the first instant on, of the launcher as of the shell."""
    password = secrets.token_hex()
    sandbox.variables = {"PASSWORD": password}
    process = sandbox.start("sleep 60", null_output)
    for _ in range(40):
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    assert password.encode() not in (folder / "cmdline").read_bytes()
                except (FileNotFoundError, ProcessLookupError):
                    continue
        await asyncio.sleep(0.002)
    await process.end(0)


@as_root
async def test_variables_have_no_effect_before_the_rights_are_dropped(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """A library to preload would run as root in the launcher. The loader would say that it is none."""
    bad = sandbox.folder / "bad.so"
    bad.write_text("no library")
    sandbox.variables = {"LD_PRELOAD": str(bad), "PYTHONHOME": "/nowhere"}
    # Once, for the shell.
    assert (await sandbox.run("echo done")).count("bad.so") == 1


async def test_limits(sandbox: Sandbox) -> None:
    small = sandbox.with_limits(processes=200, open_files=50, memory_bytes=2**28, file_bytes=2**20)
    told = await small.run("ulimit -n; ulimit -d; ulimit -f; ulimit -c; cat /proc/self/oom_score_adj")
    assert told.split() == ["50", str(2**18), str(2**11), "0", "500"]
    with pytest.raises(StepFailed, match="status"):
        await small.run("head -c 2000000 /dev/zero > big")
    with pytest.raises(StepFailed, match="status 1"):
        await small.run(f"{PYTHON} -c 'x = bytearray(2**29)'")


async def test_nothing_but_the_three_descriptors(sandbox: Sandbox, tmp_path: Path) -> None:
    ours = os.open(tmp_path / "ours", os.O_CREAT)
    os.set_inheritable(ours, True)
    assert (await sandbox.run("exec ls /proc/self/fd")).split() == ["0", "1", "2", "3"]
    os.close(ours)
    assert await sandbox.run("cat; readlink /proc/self/fd/0") == "/dev/null\n"


async def test_standard_error_can_be_opened(sandbox: Sandbox) -> None:
    assert await sandbox.run("echo told > /dev/stderr; echo more >> /dev/stdout") == "more\ntold\n"


@pytest.mark.parametrize("missing", ["folder", "home"])
async def test_a_folder_that_is_not_there(sandbox: Sandbox, missing: str) -> None:
    there = sandbox.with_confinement(**{missing: sandbox.path / "none"})
    if missing == "folder" or await has_namespaces():
        told = await _told(there)
        assert told.startswith("pharos: the command could not be started: ")
        assert "No such file" in told and "none" in told and told.count("\n") == 1


async def _told(sandbox: Sandbox) -> str:
    reader, writer = os.pipe()
    process = sandbox.start("echo ran", writer)
    os.close(writer)
    told = await asyncio.to_thread(_read_all, reader)
    assert await process.wait() == launcher.STATUS_NOT_STARTED
    return told


def test_an_instruction_that_is_none() -> None:
    for given in ("{", "{}", json.dumps({"mark": "m"})):
        done = subprocess.run(
            [sys.executable, "-c", "from deployer.processes.launcher import main; main()", given],
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr.count("\n")) == (launcher.STATUS_NOT_STARTED, 1)
        assert "Traceback" not in done.stderr
