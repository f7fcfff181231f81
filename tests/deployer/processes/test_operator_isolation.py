"""Pharos as an ordinary user with keys and groups such as `docker`: commands run as the same user with the same groups,
but cannot open the keys or sockets."""

import json
import os
import secrets
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

PYTHON = Path("/usr/bin/python3")
NOBODY, GROUP = 65534, 5000
REPOSITORY = Path(__file__).parents[3]
HOME = "/mnt/operator"
MACHINE = f"""set -e
mount -t tmpfs pharos-test /run
mount -t tmpfs pharos-test /mnt
cp -a /etc /mnt/etc
rm -f /mnt/etc/resolv.conf
ln -s ../run/links/resolv.conf /mnt/etc/resolv.conf
mount --bind /mnt/etc /etc
mkdir /run/service /run/links /run/resolver
echo 'nameserver 127.0.0.53' > /run/resolver/resolv.conf
ln -s ../resolver/resolv.conf /run/links/resolv.conf
ln -s /nix/system /run/current-system
{PYTHON} -c 'import socket; socket.socket(socket.AF_UNIX).bind("/run/service/group.sock")'
chown 0:{GROUP} /run/service/group.sock
chmod 0660 /run/service/group.sock
mkdir -p {HOME}/.ssh
echo 'a key' > {HOME}/.ssh/id_ed25519
echo 'a password' > {HOME}/.netrc
printf 'a toolchain' > {HOME}/.toolchain
chmod 0600 {HOME}/.ssh/id_ed25519 {HOME}/.netrc
chown -R {NOBODY}:{NOBODY} {HOME}
mkdir /mnt/dev
cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty /mnt/dev
mknod /mnt/dev/disk0 b 7 200
chown 0:{GROUP} /mnt/dev/disk0
chmod 0660 /mnt/dev/disk0
mount --bind /mnt/dev /dev
exec setpriv --reuid {NOBODY} --regid {NOBODY} --groups {GROUP} "$@"
"""
"""Sets up a mount namespace with the operator's home, a service with a group socket, and systemd-resolved."""

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not PYTHON.exists() or not os.path.islink("/var/run"),
    reason="needs root, a Python that every user may run and the usual folders",
)


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    """Return the report of a command that this Pharos runs."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        os.chown(folder, NOBODY, NOBODY)
        script = Path(__file__).with_name("with_operator_files.py")
        mark = f"test:{secrets.token_hex(8)}:"
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", MACHINE, "sh", str(PYTHON), "-B", str(script), folder, mark],
            cwd="/",
            env={"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": HOME},
            capture_output=True,
            text=True,
            timeout=200,
        )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    if not found["has_namespaces"]:
        pytest.skip("this kernel grants ordinary users no namespaces")
    return found


def test_sockets_of_the_operators_groups_are_hidden(report: dict[str, Any]) -> None:
    assert report["sockets"] == ["No such file or directory"] * 2
    assert report["run"] == ["current-system", "links", "resolver"]
    assert report["resolver"] == "nameserver 127.0.0.53\n"
    assert report["system"] == "/nix/system"
    assert report["is_disk"] is False
    assert report["written"] == "Read-only file system"


def test_keys_of_the_operator_are_hidden(report: dict[str, Any]) -> None:
    """The command runs as the same user, so file permissions alone would allow access. Other files stay visible."""
    assert report["home"] == {
        ".ssh/id_ed25519": "No such file or directory",
        ".netrc": "",
        ".toolchain": "a toolchain",
    }
