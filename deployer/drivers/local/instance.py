"""Represents one instance: a supervised and probed process of a release."""

import asyncio
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from control_domain.workflows.document import Process
from deployer.drivers.interface import WEB, InstanceStatus
from deployer.drivers.local.health import NothingListens, Unhealthy, wait_healthy
from deployer.listeners.owners import ExpectedInstance, ListenerOwners
from deployer.listeners.sources import Listener
from deployer.processes.supervised_process import SupervisedProcess
from deployer.shield import end_tasks
from deployer.traffic.interface import Target

logger = logging.getLogger(__name__)

GRACE_SECONDS = 10.0
"""How many seconds a process has between SIGTERM and SIGKILL."""

# A process without a port counts as ready once it has run for this long.
_SETTLED_SECONDS = 1.0
_MAX_RESTARTS = 5
_REACHABLE = ("127.0.0.1", "0.0.0.0", "::")
_MAX_LISTED = 5
# The format of `str(Mark)`. Programs may write other texts into their environments.
_NUMBER = "(0|[1-9][0-9]{0,17})"
_MARK = re.compile(f"([^/]+)/{_NUMBER}/{_NUMBER}/([a-z][a-z0-9-]*)/{_NUMBER}/{_NUMBER}")
_LAST_PORT = 65_535


class Mark(NamedTuple):
    """Identifies a process after a restart of the deployer, by its environment and its role."""

    deployer_id: str
    environment_id: int
    deployment_id: int
    process: str
    number: int
    port: int
    """The port of the process. 0 if the process has none."""

    def __str__(self) -> str:
        return "/".join(map(str, self))

    @classmethod
    def read(cls, text: str) -> "Mark | None":
        """Return the mark of an instance. None if the text is the mark of a step, or no mark that Pharos has given
        to an instance."""
        parts = _MARK.fullmatch(text)
        if parts is None:
            return None
        deployer_id, environment, deployment, process, number, port = parts.groups()
        mark = cls(deployer_id, int(environment), int(deployment), process, int(number), int(port))
        return mark if mark.port <= _LAST_PORT else None


@dataclass(eq=False)
class Instance:
    """One process of a release, with its port. It knows whether the process is ready for requests."""

    mark: Mark
    """The supervised process. Its port changes with each start."""
    process: Process
    host: str
    """The Host header of probes: the environment's host."""
    on_change: Callable[[], None]
    supervised: SupervisedProcess
    listeners: ListenerOwners
    is_ready: bool = False
    is_draining: bool = False
    _probing: "asyncio.Task[None] | None" = None
    _fault: Unhealthy | None = None
    """Why the last health check failed. None if it succeeded."""

    @property
    def is_web(self) -> bool:
        """Return True if the instance receives requests."""
        return self.process.name == WEB

    @property
    def target(self) -> Target:
        """Return the address at which the process should listen."""
        return Target(self.mark.port)

    @property
    def is_hopeless(self) -> bool:
        """Return True if the process ends after every start."""
        return self.supervised.state == "waiting" and self.supervised.restarts >= _MAX_RESTARTS

    def changed(self) -> None:
        """Start or stop probing: the process has started or ended."""
        if self._probing is not None:
            self._probing.cancel()
            self._probing = None
        self.is_ready = False
        self._fault = None
        if self.supervised.state in ("waiting", "stopped"):
            # No process of the instance is left: from now on another program may listen on the port.
            self.listeners.forget(self.mark.port, str(self.mark))
        if self.supervised.state == "running":
            self._probing = asyncio.create_task(self._become_ready(), name=f"probe {self.mark}")
        self.on_change()

    def find_leader(self) -> int | None:
        """Return the process that the deployer started; None while there is none."""
        return self.supervised.pid

    async def stop(self, grace_seconds: float) -> None:
        """Send SIGTERM, and SIGKILL after the grace time."""
        await self.supervised.stop(grace_seconds)
        if self._probing is not None:
            await end_tasks(self._probing)

    async def leave(self) -> None:
        """Stop watching the process, and leave it running."""
        self.on_change = _ignore_change
        if self._probing is not None:
            await end_tasks(self._probing)
        await self.supervised.detach()

    async def _become_ready(self) -> None:
        while not self.is_ready:
            try:
                await self._wait_ready()
                self.is_ready = True
            except Exception:
                # Keep the task running: without it the instance would never receive a request.
                logger.exception("%s could not be probed; the probe is repeated", self.mark)
                await asyncio.sleep(_SETTLED_SECONDS)
        self.on_change()

    async def _wait_ready(self) -> None:
        if self.is_web:
            path = None if self.process.health is None else self.process.health.path
            await wait_healthy(self.target, path, self.host, self.listeners, self._set_fault)
        else:
            await asyncio.sleep(_SETTLED_SECONDS)

    def _set_fault(self, fault: Unhealthy) -> None:
        self._fault = fault

    async def explain(self) -> str:
        """Return the reason why the instance is not ready: one or two sentences with full stops."""
        if self.supervised.last_exit is not None:
            return f"It {self.supervised.last_exit}."
        if self._fault is None:
            return "It had only just started."
        if not isinstance(self._fault, NothingListens):
            return f"{self._fault}."
        found = await self.listeners.list_listeners(self.mark.port)
        if any(each.port == self.mark.port and each.address in _REACHABLE for each in found):
            return f"It had only just begun to listen at {self.target.host}:{self.target.port}."
        addresses = ", ".join(dict.fromkeys(map(_describe_address, found[:_MAX_LISTED])))
        where = (
            f"the application listens at {addresses}"
            if addresses
            else "the application does not listen on any port"
        )
        # The port is right, but the address cannot be reached over 127.0.0.1.
        is_right_port = any(each.port == self.mark.port for each in found)
        advice = "Listen at 127.0.0.1 or at all addresses" if is_right_port else "Read the PORT variable"
        return f"{self._fault} ({where}). {advice}."

    def status(self) -> InstanceStatus:
        """Return the status as the API shows it."""
        supervised = self.supervised
        return InstanceStatus(
            deployment_id=self.mark.deployment_id,
            process=self.mark.process,
            number=self.mark.number,
            state=(
                "draining"
                if self.is_draining
                else "running"
                if self.is_ready
                else "waiting"
                if supervised.state == "waiting"
                else "starting"
            ),
            port=self.mark.port or None,
            pid=supervised.pid,
            restarts=supervised.restarts,
            last_exit=supervised.last_exit,
            started_at=supervised.started_at,
        )


def expect_listener(
    listeners: ListenerOwners, mark: Mark, uid: int | None, find_leader: Callable[[], int | None]
) -> None:
    """Send requests for this port only to this instance. `uid`: the user that runs the instance."""
    if mark.port and uid is not None:
        listeners.expect(mark.port, ExpectedInstance(uid, str(mark), find_leader, mark.environment_id))


def _ignore_change() -> None:
    pass


def _describe_address(listener: Listener) -> str:
    """Return the port, and also the address if a connection to 127.0.0.1 does not reach it."""
    if listener.address in _REACHABLE:
        return str(listener.port)
    return (
        f"[{listener.address}]:{listener.port}"
        if ":" in listener.address
        else f"{listener.address}:{listener.port}"
    )
