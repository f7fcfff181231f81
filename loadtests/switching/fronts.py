"""Runs a real Caddy in front of the platform's proxy. Either the platform configures it, or it has a fixed
configuration."""

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.engines import free_port

_START_SECONDS = 10.0


class SwitchingFailed(Exception):
    """A process did not start, or an operation did not have its expected result."""


@dataclass(frozen=True, slots=True)
class Front:
    """The server that receives the requests. By default, this is the platform itself."""

    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings for the platform."""
    port: int | None = None
    """The port that receives requests for applications. None: the platform's own port."""
    apps_port: int | None = None
    """The platform's own port for applications. None: any free port."""


DIRECT = Front()


@contextmanager
def configured_caddy() -> Iterator[Front]:
    """Run a Caddy that has only its admin API within the context. The platform configures its hosts over this API.
    Raises `SwitchingFailed`."""
    port = free_port()
    with _running_caddy({}) as socket:
        settings = {
            "PHAROS_CADDY_ADMIN_URL": f"unix://{socket}",
            "PHAROS_CADDY_LISTEN": f"127.0.0.1:{port}",
        }
        yield Front(settings, port)


@contextmanager
def fixed_caddy() -> Iterator[Front]:
    """Run a Caddy that forwards everything to the platform's own proxy, as a gateway does, within the context. Raises
    `SwitchingFailed`."""
    port, apps_port = free_port(), free_port()
    proxy = {"handler": "reverse_proxy", "upstreams": [{"dial": f"127.0.0.1:{apps_port}"}]}
    server = {
        "listen": [f"127.0.0.1:{port}"],
        "automatic_https": {"disable": True},
        "routes": [{"handle": [proxy]}],
    }
    with _running_caddy({"http": {"servers": {"gateway": server}}}):
        yield Front(port=port, apps_port=apps_port)


@contextmanager
def _running_caddy(apps: Mapping[str, Any]) -> Iterator[Path]:
    """Run Caddy and yield the path of its admin socket."""
    program = shutil.which("caddy")
    if program is None:
        raise SwitchingFailed("Caddy is not installed; on Debian: apt-get install caddy")
    with tempfile.TemporaryDirectory(prefix="pharos-caddy-") as made:
        socket, config = Path(made) / "admin.sock", Path(made) / "caddy.json"
        admin = {"listen": f"unix/{socket}", "config": {"persist": False}}
        config.write_text(json.dumps({"admin": admin, "apps": apps}))
        with (Path(made) / "caddy.log").open("wb") as log:
            process = subprocess.Popen(
                [program, "run", "--config", str(config)],
                stdout=log,
                stderr=log,
                env={"XDG_DATA_HOME": made, "XDG_CONFIG_HOME": made},
            )
        try:
            _wait_for(socket, process)
            yield socket
        finally:
            process.terminate()
            process.wait()


def _wait_for(socket: Path, process: "subprocess.Popen[bytes]") -> None:
    ends_at = time.monotonic() + _START_SECONDS
    while not socket.exists():
        if process.poll() is not None or time.monotonic() > ends_at:
            raise SwitchingFailed(f"Caddy did not start; it ended with {process.returncode}.")
        time.sleep(0.05)


FRONTS: Mapping[str, Callable[[], AbstractContextManager[Front]]] = {
    "pharos": lambda: nullcontext(DIRECT),
    "gateway": fixed_caddy,
    "caddy": configured_caddy,
}
"""The servers to test: the embedded proxy alone, behind a Caddy with a fixed configuration, and behind a Caddy that
the platform configures."""
