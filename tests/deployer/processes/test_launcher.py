"""Commands report their own privileges, files, variables and limits."""

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


def _parse_status(text: str) -> dict[str, str]:
    return {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}


async def test_a_command_has_no_privileges(sandbox: Sandbox) -> None:
    output = _parse_status(await sandbox.run("cat /proc/self/status"))
    assert {output[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
    assert output["NoNewPrivs"] == "1"
    # No signal is ignored or blocked, except two that the C library reserves (32 and 33).
    kept = 1 << 31 | 1 << 32
    assert [int(output[name], 16) & ~kept for name in ("SigIgn", "SigBlk")] == [0, 0]


@as_root
async def test_a_command_has_the_owners_ids_and_no_other_groups(sandbox: Sandbox) -> None:
    output = _parse_status(await sandbox.run("cat /proc/self/status"))
    owner = sandbox.confinement.owner
    assert owner is not None
    assert output["Uid"].split() == [str(owner.uid)] * 4
    assert output["Gid"].split() == [str(owner.gid)] * 4
    assert output["Groups"] == ""


@as_root
async def test_a_set_user_id_file_gives_no_privileges(sandbox: Sandbox) -> None:
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
    # The default umask keeps other users from reading new files.
    assert (sandbox.folder / "result").stat().st_mode & 0o777 == 0o640


@as_root
async def test_the_rest_of_the_machine_is_read_only(sandbox: Sandbox, tmp_path: Path) -> None:
    """This includes folders that all users may write, and the owner's own folders."""
    owner = sandbox.confinement.owner
    assert owner is not None
    elsewhere = Path(f"/var/lib/pharos-test-{owner.uid}")
    elsewhere.mkdir(mode=0o777)
    try:
        os.chown(elsewhere, owner.uid, owner.gid)
        output = await sandbox.run(
            f"touch {elsewhere}/x 2>&1 || true; touch /srv/x 2>&1 || true; touch ~/x && echo home"
        )
        assert output.count("Read-only file system") == 2
        assert output.endswith("home\n")
        assert list(elsewhere.iterdir()) == []
    finally:
        elsewhere.rmdir()


@as_root
async def test_files_of_root_cannot_be_read(sandbox: Sandbox, tmp_path: Path) -> None:
    secret = Path(f"/var/lib/pharos-test-{os.getpid()}")
    secret.touch(mode=0o600)
    try:
        with pytest.raises(StepFailed):
            await sandbox.run(f"cat {secret} /etc/shadow")
    finally:
        secret.unlink()


@as_root
async def test_hidden_paths_are_empty(sandbox: Sandbox, tmp_path: Path) -> None:
    """Hide folders, files, a parent of the work tree, and a missing path."""
    data = Path(f"/var/lib/pharos-test-{os.getpid()}")
    data.mkdir(mode=0o755)
    try:
        (data / "key").write_text("secret")
        (data / "open").mkdir()
        (data / "open" / "file").write_text("secret")
        hidden = sandbox.with_confinement(hidden=(sandbox.path, data / "key", data / "open", data / "none"))
        output = await hidden.run(
            f"cat {data}/key; ls -A {data}/open; ls -A {sandbox.path} 2>&1 || true; echo x > y; ls"
        )
        assert "secret" not in output
        assert output.endswith("y\n")
        whole = sandbox.with_confinement(hidden=(data, sandbox.path))
        assert await whole.run(f"ls -A {data}; ls") == "y\n"
    finally:
        for each in sorted(data.rglob("*"), reverse=True):
            each.rmdir() if each.is_dir() else each.unlink()
        data.rmdir()


@as_root
async def test_folders_below_srv_can_be_used(tmp_path: Path) -> None:
    path = Path(f"/srv/pharos-test-{os.getpid()}")
    try:
        sandbox = make_sandbox(path)
        assert await sandbox.run("echo x > y; ls; ls /srv; ls ~") == "y\napp\nhome\n"
        assert (sandbox.folder / "y").exists()
    finally:
        shutil.rmtree(path)


@as_root
async def test_temporary_folders_are_private(sandbox: Sandbox) -> None:
    output = await sandbox.run(
        "for d in /tmp /var/tmp /dev/shm; do echo x > $d/pharos-test; ls -A $d; done; echo $TMPDIR"
    )
    assert output == "pharos-test\n" * 3 + "/tmp\n"
    assert not any(Path(folder, "pharos-test").exists() for folder in ("/tmp", "/var/tmp", "/dev/shm"))
    assert "x" not in await sandbox.run("cat /tmp/* 2>&1 || true; ls -A /dev/shm")


@as_root
async def test_temporary_folders_are_limited(sandbox: Sandbox) -> None:
    await sandbox.run("fallocate --length 100M /tmp/small")
    with pytest.raises(StepFailed):
        await sandbox.run("fallocate --length 600M /tmp/big")


@as_root
async def test_processes_of_others_are_invisible(sandbox: Sandbox) -> None:
    seen = (await sandbox.run("cd /proc && echo [0-9]*")).split()
    assert set(map(int, seen)) <= {1, 2}
    assert (await sandbox.run("exec cat /proc/1/cmdline")).startswith("sleep\0")


async def test_the_environment_consists_of_the_passed_variables(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pharos' own variables are missing, passed ones override all but the mark, and bytes stay unchanged."""
    monkeypatch.setenv("PHAROS_OWN_SECRET", "ours")
    text = "two\nlines, 'quotes', \"more\", $HOME, ü \udcff"
    sandbox.variables = {
        "TEXT": text,
        "LANG": "de_DE.UTF-8",
        MARK_VARIABLE: "forged",
        "PYTHONPATH": "/x",
        "EMPTY": "",
    }
    variables = (await _environment(sandbox)).split("\0")
    output = dict(each.split("=", 1) for each in variables if each)
    assert output.pop("HOME") in (mounts.HOME_FOLDER, str(sandbox.confinement.home))
    output.pop("PWD", None)
    assert output == {
        **sandbox.variables,
        MARK_VARIABLE: sandbox.mark,
        "TMPDIR": "/tmp",
        "PATH": build_search_path(),
    }


async def _environment(sandbox: Sandbox) -> str:
    reader, writer = os.pipe()
    process = sandbox.start("cat /proc/$$/environ", writer)
    os.close(writer)
    output = await asyncio.to_thread(_read_all, reader)
    assert await process.wait() == 0
    await process.end(0)
    return output


def _read_all(reader: int) -> str:
    with open(reader, errors="surrogateescape") as file:
        return file.read()


async def test_variables_appear_in_no_command_line(sandbox: Sandbox, null_output: int) -> None:
    """Check the command lines of the launcher and the shell from the first instant."""
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
async def test_variables_have_no_effect_before_privileges_are_dropped(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """A preloaded library would run as root in the launcher. The loader prints an error for an invalid one."""
    bad = sandbox.folder / "bad.so"
    bad.write_text("no library")
    sandbox.variables = {"LD_PRELOAD": str(bad), "PYTHONHOME": "/nowhere"}
    # Only the loader of the shell prints the error.
    assert (await sandbox.run("echo done")).count("bad.so") == 1


async def test_resource_limits_apply(sandbox: Sandbox) -> None:
    small = sandbox.with_limits(processes=200, open_files=50, memory_bytes=2**28, file_bytes=2**20)
    output = await small.run("ulimit -n; ulimit -d; ulimit -f; ulimit -c; cat /proc/self/oom_score_adj")
    assert output.split() == ["50", str(2**18), str(2**11), "0", "500"]
    with pytest.raises(StepFailed, match="status"):
        await small.run("head -c 2000000 /dev/zero > big")
    with pytest.raises(StepFailed, match="status 1"):
        await small.run(f"{PYTHON} -c 'x = bytearray(2**29)'")


async def test_a_command_inherits_only_the_standard_descriptors(sandbox: Sandbox, tmp_path: Path) -> None:
    ours = os.open(tmp_path / "ours", os.O_CREAT)
    os.set_inheritable(ours, True)
    assert (await sandbox.run("exec ls /proc/self/fd")).split() == ["0", "1", "2", "3"]
    os.close(ours)
    assert await sandbox.run("cat; readlink /proc/self/fd/0") == "/dev/null\n"


async def test_standard_error_can_be_opened(sandbox: Sandbox) -> None:
    assert await sandbox.run("echo told > /dev/stderr; echo more >> /dev/stdout") == "more\ntold\n"


@pytest.mark.parametrize("missing", ["folder", "home"])
async def test_a_missing_folder_is_reported_in_one_line(sandbox: Sandbox, missing: str) -> None:
    there = sandbox.with_confinement(**{missing: sandbox.path / "none"})
    if missing == "folder" or await has_namespaces():
        output = await _start_and_read_error(there)
        assert output.startswith("pharos: the command could not be started: ")
        assert "No such file" in output and "none" in output and output.count("\n") == 1


async def _start_and_read_error(sandbox: Sandbox) -> str:
    reader, writer = os.pipe()
    process = sandbox.start("echo ran", writer)
    os.close(writer)
    output = await asyncio.to_thread(_read_all, reader)
    assert await process.wait() == launcher.STATUS_NOT_STARTED
    return output


def test_an_invalid_instruction_is_reported_in_one_line() -> None:
    for given in ("{", "{}", json.dumps({"mark": "m"})):
        done = subprocess.run(
            [sys.executable, "-c", "from deployer.processes.launcher import main; main()", given],
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr.count("\n")) == (launcher.STATUS_NOT_STARTED, 1)
        assert "Traceback" not in done.stderr
