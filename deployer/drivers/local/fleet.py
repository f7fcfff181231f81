"""What runs of one environment, and which of it gets the requests."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from deployer.drivers.interface import WEB, Run, Tenancy, WorkFailed
from deployer.drivers.local.instance import Instance
from deployer.traffic.interface import Route, Traffic, TrafficUnavailable, drain
from deployer.uncut import end_tasks

logger = logging.getLogger(__name__)

_READY_SECONDS = 60.0
_GRACE_SECONDS = 10.0
_LAST_SECONDS = 5.0
_AGAIN_SECONDS = 1.0
_PATIENCE_SECONDS = 60.0

Launch = Callable[[Run, str, int, Callable[[], None]], Instance]
"""Starts (or takes over) the process of this name and number of a run; calls back when it changes."""


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
        self._grace_seconds = _GRACE_SECONDS
        self._served: int | None = None
        """The deployment whose instances get the requests; None: nobody gets any."""
        self._wakes = False
        self._changes = asyncio.Condition()
        self._routing = asyncio.Lock()
        self._stale = asyncio.Event()
        self._rerouting = asyncio.create_task(self._keep_routed(), name=f"routes {tenancy.hosts[0]}")
        self._retiring: set[asyncio.Task[None]] = set()

    async def start(self, run: Run, replicas: int) -> None:
        """All processes of the run, beside what runs. Raises `WorkFailed` as soon as one ends, or is not healthy in
        its time."""
        fresh = [
            self._of(run, name, number) or self._begin(run, name, number)
            for name, number in run.instances(replicas)
        ]
        try:
            async with asyncio.timeout(_health_seconds(run)):
                async with self._changes:
                    await self._changes.wait_for(lambda: _are_ready(fresh) or _ended(fresh))
        except TimeoutError:
            raise WorkFailed(await _explain(fresh, _health_seconds(run))) from None
        if (ended := _ended(fresh)) is not None:
            raise WorkFailed(f"{_called(ended)} {ended.supervised.last_exit} before it was healthy.")

    async def switch(self, run: Run) -> None:
        """Requests go to the run from now on; everything else is drained and ended. Raises `WorkFailed`; then the
        former instances run on until it is called again."""
        self._served = run.deployment_id
        old = [one for one in self.instances if one.mark.deployment_id != run.deployment_id]
        for one in old:
            one.is_draining = True
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + _PATIENCE_SECONDS
        while True:
            try:
                await self._route()
                break
            except TrafficUnavailable as error:
                if loop.time() > ends_at:
                    raise WorkFailed(f"The traffic could not be switched: {error}") from error
            await asyncio.sleep(_AGAIN_SECONDS)
        await self._retire(old)

    async def keep(self, run: Run | None, replicas: int, *, wakes: bool) -> None:
        """Have exactly this, one by one where something is ready already."""
        if run is None or replicas == 0:
            self._served, self._wakes = None, wakes
            await self._retire(self.instances)
            return
        self._served, self._wakes = run.deployment_id, False
        self._stale.set()
        names = run.instances(replicas)
        if not any(one.is_ready and one.mark.deployment_id == run.deployment_id for one in self.instances):
            for name, number in names:
                if self._of(run, name, number) is None:
                    self._begin(run, name, number)
            await self._settled(run, self.instances)
        for name, number in names:
            if self._of(run, name, number) is None:
                await self._settled(run, [self._begin(run, name, number)])
        mine = [one for one in self.instances if one.mark.deployment_id == run.deployment_id]
        surplus = [one for one in mine if (one.mark.process, one.mark.number) not in names]
        await self._retire(one for one in self.instances if one not in mine)
        for one in reversed(surplus):
            await self._retire([one])

    async def stop(self) -> None:
        """End all of it, in less time than usual: the process that carries its requests is about to end as well."""
        self._served = None
        self._drain_seconds = min(self._drain_seconds, _LAST_SECONDS)
        self._grace_seconds = _LAST_SECONDS
        await self._retire(self.instances)

    async def close(self) -> None:
        """Leave what runs to whoever comes next."""
        await end_tasks(self._rerouting, *self._retiring)
        for one in self.instances:
            await one.leave()

    def _of(self, run: Run, name: str, number: int) -> Instance | None:
        for one in self.instances:
            mark = one.mark
            if (mark.deployment_id, mark.process, mark.number) == (run.deployment_id, name, number):
                return None if one.is_draining else one
        return None

    def _begin(self, run: Run, name: str, number: int) -> Instance:
        instance = self._launch(run, name, number, self._changed)
        self.instances.append(instance)
        self._changed()
        return instance

    def _changed(self) -> None:
        self._report(self)
        self._stale.set()

    async def _settled(self, run: Run, instances: Sequence[Instance]) -> None:
        """Until all are ready, or had the time for it: what is live goes on being tried."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_health_seconds(run)), self._changes:
                await self._changes.wait_for(lambda: _are_ready(instances))

    async def _retire(self, instances: Iterable[Instance]) -> None:
        """Drain them, and end them; to its end, whoever waits for it."""
        leaving = list(instances)
        for one in leaving:
            one.is_draining = True
        task = asyncio.create_task(self._drain_and_stop(leaving))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)
        await asyncio.shield(task)

    async def _drain_and_stop(self, leaving: Sequence[Instance]) -> None:
        self._report(self)
        targets = [one.target for one in leaving if one.is_web]
        try:
            await self._route()
            await drain(self._traffic, self.tenancy.environment_id, targets, self._drain_seconds)
        except TrafficUnavailable as error:
            logger.warning("%s: ends without being drained: %s", self.tenancy.hosts[0], error)
        await asyncio.gather(*(one.stop(self._grace_seconds) for one in leaving))
        self.instances = [one for one in self.instances if one not in leaving]
        self._changed()

    async def _keep_routed(self) -> None:
        """Bring every change to the traffic, those that come together at once."""
        while True:
            await self._stale.wait()
            self._stale.clear()
            try:
                await self._route()
            except TrafficUnavailable as error:
                logger.warning("%s", error)
                self._stale.set()
                await asyncio.sleep(_AGAIN_SECONDS)
            except Exception:
                # Ended, it would leave the environment with the route of this moment, and starts waiting.
                logger.exception("the route of %s could not be set", self.tenancy.hosts[0])
                self._stale.set()
                await asyncio.sleep(_AGAIN_SECONDS)
            async with self._changes:
                self._changes.notify_all()

    async def _route(self) -> None:
        async with self._routing:
            route = self._present_route()
            await self._traffic.set_route(self.tenancy.environment_id, route)

    def _present_route(self) -> Route:
        web = [one for one in self.instances if one.is_web]
        serving = [one for one in web if one.mark.deployment_id == self._served and not one.is_draining]
        return Route(
            hosts=self.tenancy.hosts,
            targets=tuple(one.target for one in serving if one.is_ready),
            is_awaited=any(not one.is_hopeless for one in serving),
            wakes=self._served is None and self._wakes,
            draining=tuple(one.target for one in web if one.is_draining),
        )


def _health_seconds(run: Run) -> float:
    web = run.workflow.processes.get(WEB)
    return _READY_SECONDS if web is None or web.health is None else float(web.health.timeout_seconds)


def _are_ready(instances: Sequence[Instance]) -> bool:
    return all(one.is_ready for one in instances)


def _ended(instances: Sequence[Instance]) -> Instance | None:
    """One that has ended since it was started."""
    return next((one for one in instances if one.supervised.last_exit is not None), None)


async def _explain(instances: Sequence[Instance], seconds: float) -> str:
    """Why they are not ready: instances with the same reason together."""
    reasons: dict[str, list[str]] = {}
    for one in instances:
        if not one.is_ready:
            reasons.setdefault(await one.explain(), []).append(_called(one))
    return " ".join(
        f"{', '.join(names)} {'was' if len(names) == 1 else 'were'} not healthy within {seconds:.0f} s: {reason}"
        for reason, names in reasons.items()
    )


def _called(instance: Instance) -> str:
    return f"{instance.mark.process}.{instance.mark.number}"
