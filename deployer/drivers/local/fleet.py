"""Manages the instances of one environment, and decides which of them get requests."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from deployer.drivers.interface import WEB, DeployFailed, Run, Tenancy
from deployer.drivers.local.instance import GRACE_SECONDS, Instance
from deployer.shield import end_tasks
from deployer.traffic.interface import Route, Traffic, TrafficUnavailable, drain

logger = logging.getLogger(__name__)

_READY_SECONDS = 60.0
# Time for draining and ending instances when the deployer ends.
_STOP_SECONDS = 5.0
_RETRY_SECONDS = 1.0
_SWITCH_SECONDS = 60.0

Launch = Callable[[Run, str, int, Callable[[], None]], Instance]
"""Starts or takes over the instance with this process name and number of a run. The callback is called whenever the
instance changes."""


class Fleet:
    """The instances of one environment."""

    def __init__(
        self,
        tenancy: Tenancy,
        traffic: Traffic,
        launch: Launch,
        report: Callable[["Fleet"], None],
        drain_seconds: float,
    ) -> None:
        self.tenancy = tenancy
        self.instances: list[Instance] = []
        self._traffic = traffic
        self._launch = launch
        self._report = report
        self._drain_seconds = drain_seconds
        self._grace_seconds = GRACE_SECONDS
        self._served: int | None = None
        """The ID of the deployment whose instances get the requests. None: no instance gets any."""
        self._wakes = False
        self._changes = asyncio.Condition()
        self._routing = asyncio.Lock()
        self._route_is_stale = asyncio.Event()
        self._updating_route = asyncio.create_task(self._update_route(), name=f"routes {tenancy.hosts[0]}")
        self._retiring: set[asyncio.Task[None]] = set()

    async def start(self, run: Run, replicas: int) -> None:
        """Start all instances of the run next to the live ones. Raises `DeployFailed` as soon as an instance ends, or
        if the instances are not healthy in time."""
        started = [
            self._find(run, name, number) or self._launch_instance(run, name, number)
            for name, number in run.list_instances(replicas)
        ]
        try:
            async with asyncio.timeout(_health_seconds(run)):
                async with self._changes:
                    await self._changes.wait_for(lambda: _are_ready(started) or _find_ended(started))
        except TimeoutError:
            raise DeployFailed(await _explain(started, _health_seconds(run))) from None
        if (ended := _find_ended(started)) is not None:
            raise DeployFailed(f"{_name(ended)} {ended.supervised.last_exit} before it was healthy.")

    async def switch(self, run: Run) -> None:
        """Route all requests to the instances of this run. Drain and end all other instances. Raises `DeployFailed`;
        the former instances then keep running until the next call."""
        self._served = run.deployment_id
        former = [instance for instance in self.instances if instance.mark.deployment_id != run.deployment_id]
        for instance in former:
            instance.is_draining = True
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + _SWITCH_SECONDS
        while True:
            try:
                await self._route()
                break
            except TrafficUnavailable as error:
                if loop.time() > ends_at:
                    raise DeployFailed(f"The traffic could not be switched: {error}") from error
            await asyncio.sleep(_RETRY_SECONDS)
        await self._retire(former)

    async def reconcile(self, run: Run | None, replicas: int, *, wakes: bool) -> None:
        """Start and end instances until exactly those of this run remain. If instances are ready already, change one
        at a time."""
        if run is None or replicas == 0:
            self._served, self._wakes = None, wakes
            await self._retire(self.instances)
            return
        self._served, self._wakes = run.deployment_id, False
        self._route_is_stale.set()
        names = run.list_instances(replicas)
        if not any(
            instance.is_ready and instance.mark.deployment_id == run.deployment_id
            for instance in self.instances
        ):
            for name, number in names:
                if self._find(run, name, number) is None:
                    self._launch_instance(run, name, number)
            await self._wait_ready(run, self.instances)
        for name, number in names:
            if self._find(run, name, number) is None:
                await self._wait_ready(run, [self._launch_instance(run, name, number)])
        current = [
            instance for instance in self.instances if instance.mark.deployment_id == run.deployment_id
        ]
        surplus = [
            instance for instance in current if (instance.mark.process, instance.mark.number) not in names
        ]
        await self._retire(instance for instance in self.instances if instance not in current)
        for instance in reversed(surplus):
            await self._retire([instance])

    async def stop(self) -> None:
        """End all instances. This takes less time than usual, because the proxy in this process ends as well."""
        self._served = None
        self._drain_seconds = min(self._drain_seconds, _STOP_SECONDS)
        self._grace_seconds = _STOP_SECONDS
        await self._retire(self.instances)

    async def close(self) -> None:
        """Leave the instances running for the next process of the deployer."""
        await end_tasks(self._updating_route, *self._retiring)
        for instance in self.instances:
            await instance.leave()

    def _find(self, run: Run, name: str, number: int) -> Instance | None:
        for instance in self.instances:
            mark = instance.mark
            if (mark.deployment_id, mark.process, mark.number) == (run.deployment_id, name, number):
                return None if instance.is_draining else instance
        return None

    def _launch_instance(self, run: Run, name: str, number: int) -> Instance:
        instance = self._launch(run, name, number, self._changed)
        self.instances.append(instance)
        self._changed()
        return instance

    def _changed(self) -> None:
        self._report(self)
        self._route_is_stale.set()

    async def _wait_ready(self, run: Run, instances: Sequence[Instance]) -> None:
        """Wait until all instances are ready, at most for the time limit of their health check. The supervisor
        restarts ended instances meanwhile."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_health_seconds(run)), self._changes:
                await self._changes.wait_for(lambda: _are_ready(instances))

    async def _retire(self, instances: Iterable[Instance]) -> None:
        """Drain and end the instances, also if the caller is cancelled."""
        leaving = list(instances)
        for instance in leaving:
            instance.is_draining = True
        task = asyncio.create_task(self._drain_and_stop(leaving))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)
        await asyncio.shield(task)

    async def _drain_and_stop(self, leaving: Sequence[Instance]) -> None:
        self._report(self)
        targets = [instance.target for instance in leaving if instance.is_web]
        try:
            await self._route()
            await drain(self._traffic, self.tenancy.environment_id, targets, self._drain_seconds)
        except TrafficUnavailable as error:
            logger.warning("%s: instances end without being drained: %s", self.tenancy.hosts[0], error)
        await asyncio.gather(*(instance.stop(self._grace_seconds) for instance in leaving))
        self.instances = [instance for instance in self.instances if instance not in leaving]
        self._changed()

    async def _update_route(self) -> None:
        """Update the route after every change. Changes at the same time cause one update."""
        while True:
            await self._route_is_stale.wait()
            self._route_is_stale.clear()
            try:
                await self._route()
            except TrafficUnavailable as error:
                logger.warning("%s", error)
                self._route_is_stale.set()
                await asyncio.sleep(_RETRY_SECONDS)
            except Exception:
                # If this task ended, the route would never change again, and starts would wait.
                logger.exception("the route of %s could not be set", self.tenancy.hosts[0])
                self._route_is_stale.set()
                await asyncio.sleep(_RETRY_SECONDS)
            async with self._changes:
                self._changes.notify_all()

    async def _route(self) -> None:
        async with self._routing:
            route = self._present_route()
            await self._traffic.set_route(self.tenancy.environment_id, route)

    def _present_route(self) -> Route:
        web = [instance for instance in self.instances if instance.is_web]
        serving = [
            instance
            for instance in web
            if instance.mark.deployment_id == self._served and not instance.is_draining
        ]
        return Route(
            hosts=self.tenancy.hosts,
            targets=tuple(instance.target for instance in serving if instance.is_ready),
            is_awaited=any(not instance.is_hopeless for instance in serving),
            wakes=self._served is None and self._wakes,
            draining=tuple(instance.target for instance in web if instance.is_draining),
        )


def _health_seconds(run: Run) -> float:
    web = run.workflow.processes.get(WEB)
    return _READY_SECONDS if web is None or web.health is None else float(web.health.timeout_seconds)


def _are_ready(instances: Sequence[Instance]) -> bool:
    return all(instance.is_ready for instance in instances)


def _find_ended(instances: Sequence[Instance]) -> Instance | None:
    """Return an instance that has ended since its start."""
    return next((instance for instance in instances if instance.supervised.last_exit is not None), None)


async def _explain(instances: Sequence[Instance], seconds: float) -> str:
    """Return why instances are not ready, grouped by reason."""
    reasons: dict[str, list[str]] = {}
    for instance in instances:
        if not instance.is_ready:
            reasons.setdefault(await instance.explain(), []).append(_name(instance))
    return " ".join(
        f"{', '.join(names)} {'was' if len(names) == 1 else 'were'} not healthy within {seconds:.0f} s: {reason}"
        for reason, names in reasons.items()
    )


def _name(instance: Instance) -> str:
    return f"{instance.mark.process}.{instance.mark.number}"
