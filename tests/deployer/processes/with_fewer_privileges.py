"""Run by test_fewer_privileges.py with fewer privileges. Prints as JSON what commands report about themselves."""

import asyncio
import json
import os
import sys
from pathlib import Path

from deployer.processes.confinement import Confinement, Limits, Owner
from deployer.processes.marks import find_marked
from deployer.processes.process_table import Marks
from deployer.processes.run_step import StepFailed, Stream, run_step
from deployer.processes.running_process import adopt_process
from deployer.processes.start_process import has_namespaces, start_process

COMMANDS = {
    "status": "cat /proc/self/status",
    "folder": "pwd; echo $HOME; cat file; touch x 2>&1 || true; touch $HOME/x && echo home; exec ls -A /tmp",
    "name": "id -un; id -gn; true",
    "hidden": 'ls -A "$DATA"; cat "$DATA/key" 2>&1 || true',
    "daemon": "setsid sh -c 'while :; do sleep 0.1; done' & sleep 0.1",
    "shared": 'cd /dev/shm; touch "$SHARED"; ls "$SHARED"; rm "$SHARED"',
}


async def main(path: Path, number: int) -> None:
    """`number`: unique to this run on the machine."""
    owner = None if os.geteuid() else Owner(number, number)
    mark = f"n{number}:"
    for name in ("app", "home", "data"):
        (path / name).mkdir()
    if owner is not None:
        for each in (path, path / "home"):
            os.chown(each, owner.uid, owner.gid)
    (path / "app" / "file").write_text("content\n")
    (path / "data" / "key").write_text("secret\n")
    (path / "data" / "key").chmod(0o600)
    confinement = Confinement(
        path / "app", path / "home", owner, Limits(processes=4096), hidden=(path / "data",)
    )
    report: dict[str, object] = {"has_namespaces": await has_namespaces()}

    async def run(command: str) -> str:
        output: list[bytes] = []

        async def listen(stream: Stream, chunk: bytes) -> None:
            output.append(chunk)

        variables = {"DATA": str(path / "data"), "SHARED": f"pharos-{number}"}
        await run_step(
            command,
            variables=variables,
            confinement=confinement,
            mark=f"{mark}1",
            timeout_seconds=100,
            on_output=listen,
        )
        return b"".join(output).decode()

    for name, command in COMMANDS.items():
        report[name] = await run(command)
    report["left"] = len(find_marked(mark))
    try:
        await run("exit 3")
    except StepFailed as failed:
        report["failed"] = str(failed)
    null = os.open("/dev/null", os.O_WRONLY)
    process = start_process(
        "exec env -i sleep 60", variables={}, confinement=confinement, mark=f"{mark}2", stdout=null, stderr=null,
        dies_with_deployer=False,
    )  # fmt: skip
    # Wait until the launcher has become the command.
    while not Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(b"sleep\0"):
        await asyncio.sleep(0.02)
    report["marks"] = sorted(Marks().read(process.pid))
    if report["marks"]:
        process.detach()
        process = adopt_process(process.pid, f"{mark}2")
    await process.end(60)
    report["status_of_second"] = await process.wait()
    try:
        other = Confinement(path, path, Owner(5, 5) if owner is None else None)
        start_process(
            "true", variables={}, confinement=other, mark="n", stdout=1, stderr=1, dies_with_deployer=True
        )
    except ValueError as refused:
        report["refused"] = str(refused)
    print(json.dumps(report))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
