"""Run builds that use the operator's keys and signal processes, where Pharos and its builds are the same user.

    python -m tests.hostile.operators_keys

Pharos runs as an ordinary user who has an SSH key that a real ssh server accepts, a `.netrc`, and an agent's socket in
`/run/user`. A build reads them, connects to the ssh server with the keys that ssh finds by itself, sends a signal to
Pharos, and kills the processes of another application, whose callers keep sending requests. Then Pharos runs as root,
and a build uses ssh with a key of its own, as a submodule does. The program prints which attacks succeeded. Needs root,
openssh-server and `/usr/bin/python3`.
"""

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.deployer.processes.sandbox import make_sandbox
from tests.hostile.neighbour import print_table
from tests.support.ssh_server import ssh_server

_NOBODY = 65534
_REPOSITORY = Path(__file__).parents[2]
_MACHINE = f"""set -e
mount -t tmpfs pharos-test /run
mount -t tmpfs pharos-test /mnt
mkdir -p /run/user/{_NOBODY} /mnt/work /mnt/operator/.ssh
cp "$1" /mnt/operator/.ssh/id_ed25519
chmod 600 /mnt/operator/.ssh/id_ed25519
echo "machine git.example login operator password secret" > /mnt/operator/.netrc
chown -R {_NOBODY}:{_NOBODY} /run/user/{_NOBODY} /mnt/work /mnt/operator
grep -v '^[^:]*:[^:]*:{_NOBODY}:' /etc/passwd > /mnt/passwd
echo 'operator:x:{_NOBODY}:{_NOBODY}::/mnt/operator:/bin/sh' >> /mnt/passwd
mount --bind /mnt/passwd /etc/passwd
exec setpriv --reuid {_NOBODY} --regid {_NOBODY} --clear-groups \\
    /usr/bin/python3 -B -m tests.hostile.operators_build /mnt/work "$2"
"""
"""Sets up a mount namespace as an operator's machine. `$1`: the SSH key; `$2`: its server's port."""


def attack_ordinary_user(key: Path, port: int) -> dict[str, Any]:
    """Return which attacks of a build succeed if Pharos is an ordinary user."""
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", _MACHINE, "sh", str(key), str(port)],
        cwd="/",
        env={
            "PYTHONPATH": str(_REPOSITORY),
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/mnt/operator",
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


async def use_ssh_as_root(folder: Path, key: Path, port: int) -> str:
    """Return the output of ssh in a build with its own key, if Pharos is root."""
    sandbox = make_sandbox(folder / "place")
    owner = sandbox.confinement.owner
    assert owner is not None
    own = sandbox.confinement.home / ".ssh" / "id_ed25519"
    own.parent.mkdir()
    shutil.copy(key, own)
    own.chmod(0o600)
    for each in (own.parent, own):
        os.chown(each, owner.uid, owner.gid)
    options = f"-o BatchMode=yes -o StrictHostKeyChecking=no -o LogLevel=ERROR -p {port}"
    return " ".join((await sandbox.run(f"ssh {options} root@127.0.0.1 x 2>&1 || true", 60)).split())


def _describe(done: bool) -> str:
    return "DONE" if done else "refused"


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        with ssh_server(folder) as port:
            report = attack_ordinary_user(folder / "key", port)
            as_root = asyncio.run(use_ssh_as_root(folder, folder / "key", port))
    if not report["has_namespaces"]:
        print("This kernel grants ordinary users no namespaces: only file permissions protect the keys.")
    killed, signals = report["neighbours"], report["signals"]
    seen = ", ".join(f"{count} x {kind}" for kind, count in sorted(report["seen"].items()))
    print_table(
        ("attack of a build", "the attacker", "the neighbour's callers"),
        [
            ("as an ordinary user: read ~/.ssh/id_ed25519", _describe(report["key"]), ""),
            ("as an ordinary user: read ~/.netrc", _describe(report["netrc"]), ""),
            ("as an ordinary user: reach the agent in /run/user", _describe(report["agent"]), ""),
            ("as an ordinary user: ssh with the operator's key", _describe(report["ssh"]), ""),
            ("as an ordinary user: signal Pharos", f"{_describe(signals > 0)}, {signals} received", ""),
            ("as an ordinary user: kill the neighbour", f"{_describe(killed > 0)}, {killed} killed", seen),
            ("as root: ssh with a key of its own", as_root, ""),
        ],
    )


if __name__ == "__main__":
    main()
