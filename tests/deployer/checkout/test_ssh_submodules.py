"""ssh runs as the build's user, with no key of the operator."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployer.checkout.run_git import BUILD_SSH_COMMAND
from deployer.processes.start_process import has_namespaces
from tests.deployer.processes.sandbox import Sandbox, make_sandbox
from tests.support.ssh_server import SSHD, ssh_server

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not SSHD.exists(), reason="needs root and openssh-server"
)


@pytest.fixture
def ssh_port(tmp_path: Path) -> Iterator[int]:
    with ssh_server(tmp_path) as port:
        yield port


async def test_ssh_runs_as_the_builds_user(tmp_path: Path, ssh_port: int) -> None:
    """That user has no entry in the machine's passwd, for which ssh fails with "No user exists for uid"."""
    if not await has_namespaces():
        pytest.skip("without namespaces the command sees the machine's passwd")
    sandbox: Sandbox = make_sandbox(tmp_path / "place")
    owner = sandbox.confinement.owner
    assert owner is not None
    # ssh's default path: a checkout does not use even the build's own key.
    own = sandbox.confinement.home / ".ssh" / "id_ed25519"
    own.parent.mkdir()
    own.write_bytes((tmp_path / "key").read_bytes())
    own.chmod(0o600)
    for each in (own.parent, own):
        os.chown(each, owner.uid, owner.gid)
    output = await sandbox.run(f"{BUILD_SSH_COMMAND} -p {ssh_port} root@127.0.0.1 x 2>&1 || true")
    assert "Permission denied (publickey" in output and "No user" not in output
    output = await sandbox.run(
        f"id -un; ssh -o BatchMode=yes -o StrictHostKeyChecking=no -p {ssh_port} root@127.0.0.1 x 2>/dev/null"
    )
    assert output == "app\nreached\n"
