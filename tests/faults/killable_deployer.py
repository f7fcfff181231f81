"""A deployer that kills itself with SIGKILL at the point that a file names.

An order is a line such as `before driver.build`, `after record.begin_step 2` (the second time since the order) or
`printed halfway` (a step has printed a line with this text, and the line is not stored yet).
"""

import argparse
import asyncio
import importlib
import inspect
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from control_domain.database.engine import Sessions, open_engine, open_sessions
from deployer import leases, run_deployer
from deployer.assemble import running_local_deployer
from deployer.deployments.log import DeploymentLog
from deployer.deployments.record import DeploymentRecord
from deployer.drivers.local.driver import LocalDriver
from deployer.drivers.local.fleet import Fleet
from deployer.drivers.local.folders import Folders
from deployer.identity import hold_identity
from operator_cli.processes.process_logs import start_logs
from pipeline_contracts.settings import Settings
from tests.support.serve_control import VARIABLE_KEYS


def _module(name: str) -> Any:
    return importlib.import_module(f"deployer.{name}")


POINTS: dict[str, tuple[Any, str]] = {
    **{
        f"driver.{name}": (LocalDriver, name)
        for name in ("build", "run_release_steps", "start", "switch", "reconcile")
    },
    **{
        f"record.{name}": (DeploymentRecord, name)
        for name in ("begin_step", "add_release", "skip_build", "make_live", "succeed", "fail")
    },
    "begin_attempt": (_module("deployments.run_deployment"), "begin_attempt"),
    "resolve_ref": (_module("deployments.run_deployment"), "resolve_ref"),
    "fetch": (_module("checkout.check_out"), "fetch_revision"),
    "step": (_module("processes.run_step"), "start_process"),
    "seal": (Folders, "seal"),
    "remove": (Folders, "remove"),
    "instance": (_module("processes.supervised_process"), "start_process"),
    "retire": (Fleet, "_retire"),
}
"""The wrapped objects, by their names in orders."""


class _KillOrders:
    """Follow the order in the file, if there is one."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._order = ""
        self._seen = 0

    def reach(self, point: str) -> None:
        try:
            order = self._file.read_text()
        except FileNotFoundError:
            order = ""
        if order != self._order:
            self._order, self._seen = order, 0
        requested, _, count = order.rpartition(" ") if order[-1:].isdigit() else (order, "", "1")
        if point == requested:
            self._seen += 1
            if self._seen == int(count):
                os.kill(os.getpid(), signal.SIGKILL)

    def read_output(self, data: bytes) -> None:
        for word in data.decode(errors="replace").split():
            self.reach(f"printed {word}")


def _wrap(real: Callable[..., Any], name: str, orders: _KillOrders) -> Callable[..., Any]:
    async def awaited(*arguments: Any, **named: Any) -> Any:
        orders.reach(f"before {name}")
        result = await real(*arguments, **named)
        orders.reach(f"after {name}")
        return result

    def called(*arguments: Any, **named: Any) -> Any:
        orders.reach(f"before {name}")
        result = real(*arguments, **named)
        orders.reach(f"after {name}")
        return result

    return awaited if inspect.iscoroutinefunction(real) else called


def _follow(orders: _KillOrders) -> None:
    for name, (owner, attribute) in POINTS.items():
        setattr(owner, attribute, _wrap(getattr(owner, attribute), name, orders))
    write = DeploymentLog.write

    async def read_and_write(self: DeploymentLog, stream: Any, data: bytes) -> None:
        orders.read_output(data)
        await write(self, stream, data)

    DeploymentLog.write = read_and_write  # type: ignore[method-assign]


async def _serve(arguments: argparse.Namespace) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    engine = open_engine(arguments.database)
    with hold_identity(arguments.folder) as identity:
        async with running_local_deployer(
            Settings(deploy_drain_seconds=5.0),
            identity,
            socket.create_server(("127.0.0.1", arguments.port)),
            sessions=open_sessions(engine),
            keys=VARIABLE_KEYS,
            registry=CollectorRegistry(),
            hidden=(identity.folder,),
            stops=False,
        ):
            await stop.wait()
    await engine.dispose()


async def _leave_environments(_sessions: Sessions) -> None:
    pass


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--database", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--order", type=Path, required=True)
    parser.add_argument("--lease-seconds", type=float)
    arguments = parser.parse_args()
    if arguments.lease_seconds is not None:
        leases.LEASE_SECONDS = arguments.lease_seconds
        run_deployer.RENEW_SECONDS = arguments.lease_seconds / 3
        # Only tests give the deployers of one database leases of different lengths.
        run_deployer.shorten_leases = _leave_environments
    start_logs("info")
    _follow(_KillOrders(arguments.order))
    asyncio.run(_serve(arguments))


if __name__ == "__main__":
    main()
