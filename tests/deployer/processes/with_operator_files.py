"""Run by test_operator_isolation.py as an ordinary user with keys and a group. Prints as JSON what commands can
open."""

import asyncio
import json
import sys
from pathlib import Path

from deployer.processes.confinement import Confinement
from deployer.processes.run_step import Stream, run_step
from deployer.processes.start_process import has_namespaces

SCRIPT = r"""
import json, os, socket, stat
def connect(path):
    with socket.socket(socket.AF_UNIX) as made:
        return os.strerror(made.connect_ex(path))
def read(path):
    try:
        return open(path).read()
    except OSError as error:
        return error.strerror
def write(path):
    try:
        open(path, "w").close()
    except OSError as error:
        return error.strerror
print(json.dumps({
    "groups": os.getgroups(),
    "home": {each: read(f"/mnt/operator/{each}") for each in (".ssh/id_ed25519", ".netrc", ".toolchain")},
    "sockets": [connect(f"/{folder}/service/group.sock") for folder in ("run", "var/run")],
    "run": sorted(os.listdir("/run")),
    "resolver": open("/etc/resolv.conf").read(),
    "system": os.readlink("/run/current-system"),
    "is_disk": stat.S_ISBLK(os.stat("/dev/disk0").st_mode),
    "written": write("/run/written"),
}))
"""


async def main(path: Path, mark: str) -> None:
    for name in ("app", "home"):
        (path / name).mkdir()
    (path / "app" / "question.py").write_text(SCRIPT)
    output: list[bytes] = []

    async def listen(stream: Stream, chunk: bytes) -> None:
        output.append(chunk)

    granted = await has_namespaces()
    await run_step(
        "exec /usr/bin/python3 -B question.py 2>&1",
        variables={},
        confinement=Confinement(path / "app", path / "home", None),
        mark=mark,
        timeout_seconds=100,
        on_output=listen,
    )
    print(json.dumps({"has_namespaces": granted, **json.loads(b"".join(output))}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
