"""Commands have private pseudo-terminals."""

import os
import pty

import pytest

from deployer.processes.start_process import has_namespaces
from tests.deployer.processes.sandbox import PYTHON, Sandbox

OPEN_ALL = f"""ls /dev/pts; {PYTHON} -c '
import os, pty
opened = []
try:
    while len(opened) < 300:
        opened.append(pty.openpty())
except OSError:
    pass
os.write(opened[0][1], b"heard")
print(len(opened), os.ttyname(opened[0][1]), os.read(opened[0][0], 5).decode())
'"""


async def test_pseudo_terminals_are_private_and_limited(sandbox: Sandbox) -> None:
    if not await has_namespaces():
        pytest.skip("needs namespaces")
    ours = pty.openpty()
    try:
        assert (await sandbox.run(OPEN_ALL)).split() == ["ptmx", "256", "/dev/pts/0", "heard"]
    finally:
        for each in ours:
            os.close(each)
