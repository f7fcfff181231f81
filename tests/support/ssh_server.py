"""A real SSH server on loopback with a new key."""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SSHD = Path("/usr/sbin/sshd")


@contextmanager
def ssh_server(folder: Path) -> Iterator[int]:
    """Run a server that accepts the private key `key`, created in `folder`, and prints `reached` for each command.

    Yields its port. Needs root.
    """
    for name in ("host", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    options = {
        "HostKey": folder / "host",
        "AuthorizedKeysFile": folder / "key.pub",
        "StrictModes": "no",
        "UsePAM": "no",
        "PermitRootLogin": "yes",
        "PasswordAuthentication": "no",
        "ForceCommand": "echo reached",
        "PidFile": "none",
        "ListenAddress": f"127.0.0.1:{port}",
    }
    arguments = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
    server = subprocess.Popen([SSHD, "-D", "-e", "-f", "/dev/null", *arguments], stderr=subprocess.DEVNULL)
    try:
        for _ in range(1000):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.01)
        yield port
    finally:
        server.terminate()
        server.wait()
