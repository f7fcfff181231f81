"""The local driver: runs releases as processes of this machine."""

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from deployer.drivers.interface import (
    BuildResult,
    DeployFailed,
    LastLive,
    LogSink,
    ReadRetained,
    ReportInstances,
    Run,
    Source,
    Tenancy,
    Traces,
)
from deployer.drivers.local.artefacts import Artefacts
from deployer.drivers.local.build import Builder
from deployer.drivers.local.fleet import Fleet
from deployer.drivers.local.folders import Folders, read_traces
from deployer.drivers.local.instance import Instance, Mark
from deployer.drivers.local.instance_starter import InstanceStarter
from deployer.drivers.local.layout import ARTEFACTS, HOMES, OUTPUTS, SEALING
from deployer.drivers.local.orphans import Orphans
from deployer.drivers.local.ports import Ports
from deployer.identity import Identity
from deployer.listeners.owners import ListenerOwners
from deployer.processes.confinement import Limits
from deployer.processes.marks import end_marked
from deployer.telemetry_variables import RELEASE
from deployer.traffic.interface import Route, Traffic

_QUOTED_LINES = 20
_QUOTED_BYTES = 8192


class LocalDriver:
    """The local driver, which is both a `Driver` and a `Handover`. `hidden`: folders that no application may see."""

    def __init__(
        self,
        identity: Identity,
        traffic: Traffic,
        report: ReportInstances,
        *,
        hidden: tuple[Path, ...],
        limits: Limits,
        drain_seconds: float,
        listeners: ListenerOwners,
    ) -> None:
        self._identity = identity
        self._traffic = traffic
        self._report = report
        self._drain_seconds = drain_seconds
        self._folders = Folders(identity)
        self._artefacts = Artefacts(self._folders)
        self._builder = Builder(self._folders, limits, hidden)
        self._ports = Ports()
        self._orphans = Orphans(self._folders, traffic, listeners, drain_seconds)
        self._starter = InstanceStarter(
            self._folders,
            self._artefacts,
            self._ports,
            self._orphans,
            listeners,
            limits,
            hidden,
            self._list_marks,
        )
        self._fleets: dict[int, Fleet] = {}
        self._release_locks: dict[int, asyncio.Lock] = {}
        """A lock for each environment. It is held while release steps run, because they run as the same user as the
        environment's instances."""

    def read_traces(self) -> Traces:
        """See `Handover`."""
        return read_traces(self._folders.root)

    async def find_orphans(self) -> None:
        """See `Handover`. Also ends build and release steps of the former deployer process."""
        await self._orphans.find(self._ports)

    def first_routes(self, live: Mapping[int, LastLive]) -> Mapping[int, Route]:
        """See `Handover`."""
        return self._orphans.first_routes(live)

    async def build(
        self, tenancy: Tenancy, source: Source, variables: Mapping[str, str], log: LogSink
    ) -> BuildResult:
        """See `Driver`."""
        with self._artefacts.building(str(source.deployment_id)):
            return BuildResult(*await self._builder.build(tenancy, source, variables, log))

    async def run_release_steps(self, tenancy: Tenancy, run: Run, log: LogSink) -> None:
        """See `Driver`."""
        with self._artefacts.using(run) as folder:
            async with self._release_lock(tenancy.environment_id):
                await self._builder.run_steps(
                    "release",
                    run.workflow.release,
                    run.variables_of(RELEASE),
                    folder,
                    tenancy,
                    run.deployment_id,
                    log,
                )

    async def start(self, tenancy: Tenancy, run: Run, replicas: int, log: LogSink) -> None:
        """See `Driver`. If an instance ends or is not healthy, the log gets its last output."""
        with self._artefacts.using(run):
            await self._start(tenancy, run, replicas, log)

    async def _start(self, tenancy: Tenancy, run: Run, replicas: int, log: LogSink) -> None:
        fleet = self._fleet(tenancy)
        await log.write_line(f"Starting {_describe_counts(run.count_instances(replicas))}.")
        try:
            await fleet.start(run, replicas)
        except DeployFailed:
            for name, number in run.list_instances(replicas):
                path = self._folders.output(tenancy, run.deployment_id, name, number)
                await _quote_output(path, log)
            raise
        await log.write_line("All processes are healthy: requests go to this release from now on.")

    async def switch(self, tenancy: Tenancy, run: Run) -> None:
        """See `Driver`."""
        with self._artefacts.using(run):
            await self._fleet(tenancy).switch(run)

    async def reconcile(
        self, tenancy: Tenancy, run: Run | None, replicas: int, *, wakes: bool = False
    ) -> None:
        """See `Driver`."""
        fleet = self._fleet(tenancy)
        if run is None or replicas == 0:
            fault = None
            await fleet.reconcile(run, replicas, wakes=wakes)
        else:
            with self._artefacts.using(run):
                fault = self._folders.find_home_fault(tenancy)
                await fleet.reconcile(run, replicas, wakes=wakes)
        await self._orphans.drain_and_end(tenancy.environment_id)
        lock = self._release_lock(tenancy.environment_id)
        if not fleet.instances and not lock.locked():
            async with lock:
                # Processes that have removed their mark are found by their user ID.
                await end_marked(
                    f"{self._identity.id}/{tenancy.environment_id}/", self._folders.runner(tenancy)
                )
        if fault is not None:
            raise DeployFailed(fault)

    async def sweep(self, read_retained: ReadRetained) -> bool:
        """See `Driver`."""
        await self._end_removed(read_retained)
        # List the folders before the call of `read_retained`: an artefact that is built after this line is then in
        # neither list.
        listed = {kind: self._folders.names(kind) for kind in (ARTEFACTS, HOMES, OUTPUTS, SEALING)}
        retained = await read_retained()
        # Do not await anything until the last folder is moved away: otherwise a start could use a folder that is
        # about to go.
        running = {mark.deployment_id for mark in self._list_marks()}
        used = self._artefacts.find_used(running)
        building = self._artefacts.in_progress
        retained_names = {
            ARTEFACTS: retained.artefacts | building | {str(number) for number in retained.deployments},
            HOMES: set(retained.environments.values()),
            OUTPUTS: set(retained.environments.values()),
            SEALING: building,
        }
        needless = [
            (kind, name)
            for kind, names in listed.items()
            for name in names
            if name not in retained_names[kind]
        ]
        self._artefacts.forget_ended(running)
        folders = [self._folders.root / kind / name for kind, name in needless if name not in used]
        is_spared = len(folders) < len(needless)
        folders += self._folders.find_old_outputs(retained.environments.values(), running)
        for folder in folders:
            self._folders.set_aside(folder)
        await self._folders.remove_set_aside()
        return is_spared

    async def _end_removed(self, read_retained: ReadRetained) -> None:
        """End all processes of removed environments. Also end processes that a former deployer process started for
        environments that another deployer runs by now."""
        orphans = {mark.environment_id for mark in self._orphans.marks}
        running = {*self._fleets, *orphans}
        retained = await read_retained()
        orphans = {mark.environment_id for mark in self._orphans.marks}
        moved = orphans & retained.moved - set(self._fleets)
        await asyncio.gather(*map(self._end_moved, moved))
        removed = running - set(retained.environments)
        leaving = [mark for mark in self._orphans.marks if mark.environment_id in removed]
        await asyncio.gather(*map(self._orphans.end, leaving))
        for number in removed:
            fleet = self._fleets.get(number)
            if fleet is not None:
                await fleet.reconcile(None, 0, wakes=False)
                await fleet.close()
                self._fleets.pop(number, None)
                self._release_locks.pop(number, None)
            await self._traffic.remove_route(number)

    async def _end_moved(self, environment_id: int) -> None:
        await self._traffic.remove_route(environment_id)
        await self._orphans.drain_and_end(environment_id)

    async def close(self, *, stops: bool) -> None:
        """See `Handover`."""
        fleets = list(self._fleets.values())
        if stops:
            orphans = map(self._orphans.end, list(self._orphans.marks))
            await asyncio.gather(*(fleet.stop() for fleet in fleets), *orphans)
        for fleet in fleets:
            await fleet.close()

    def _release_lock(self, environment_id: int) -> asyncio.Lock:
        return self._release_locks.setdefault(environment_id, asyncio.Lock())

    def _fleet(self, tenancy: Tenancy) -> Fleet:
        fleet = self._fleets.get(tenancy.environment_id)
        if fleet is None:

            def launch(run: Run, name: str, number: int, on_change: Callable[[], None]) -> Instance:
                # The tenancy may change later: SQLite gives the number of a removed environment to the next new one.
                return self._starter.start(made.tenancy, run, name, number, on_change)

            made = Fleet(tenancy, self._traffic, launch, self._report_fleet, self._drain_seconds)
            fleet = self._fleets[tenancy.environment_id] = made
        fleet.tenancy = tenancy
        return fleet

    def _report_fleet(self, fleet: Fleet) -> None:
        self._report(fleet.tenancy.environment_id, [instance.status() for instance in fleet.instances])

    def _list_marks(self) -> set[Mark]:
        """Return the marks of all running instances."""
        started = {instance.mark for fleet in self._fleets.values() for instance in fleet.instances}
        return started | self._orphans.marks


def _describe_counts(counts: Mapping[str, int]) -> str:
    """Return `1 web process, 2 worker processes`."""
    return ", ".join(
        f"{count} {name} {'process' if count == 1 else 'processes'}" for name, count in counts.items()
    )


async def _quote_output(path: Path, log: LogSink) -> None:
    """Write the last lines of a process's output into the log."""
    lines = await asyncio.to_thread(_read_last_lines, path)
    if lines:
        await log.write_line(f"Last output of {path.stem}:")
        text = b"".join(lines)
        await log.write("stdout", text if text.endswith(b"\n") else text + b"\n")


def _read_last_lines(path: Path) -> list[bytes]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _QUOTED_BYTES))
            return file.read(_QUOTED_BYTES).splitlines(keepends=True)[-_QUOTED_LINES:]
    except FileNotFoundError:
        return []
