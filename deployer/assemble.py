"""Puts a deployer together from its parts."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry
from sqlalchemy.exc import SQLAlchemyError

from control_api.database import Sessions
from control_api.variables.sealing import SealingKeys
from deployer.database_guard import DatabaseGuard, DatabaseRefused, live_of
from deployer.deployments.carry_out import Workshop
from deployer.drivers.interface import LastLive
from deployer.drivers.local.driver import LocalDriver
from deployer.environments.names import Names
from deployer.environments.overview import read_overview
from deployer.identity import Identity
from deployer.listeners.owners import ListenerOwners
from deployer.metrics import DeployerMetrics
from deployer.processes.confinement import Limits
from deployer.processes.open_files import raise_open_file_limit
from deployer.processes.operator_account import operator_groups
from deployer.processes.start_process import probe_confinement
from deployer.run_deployer import Deployer, deploying
from deployer.traffic.caddy import CaddyTraffic
from deployer.traffic.interface import Route, Target, Traffic, TrafficUnavailable
from deployer.traffic.proxy.bounded_server import CallerLimits
from deployer.traffic.proxy.streaming import StreamingProxy
from deployer.uncut import end_tasks
from pipeline_contracts.client_address import read_trusted
from pipeline_contracts.settings import Settings

logger = logging.getLogger(__name__)

_ENSURE_SECONDS = 5.0


@asynccontextmanager
async def running_local_deployer(
    settings: Settings,
    identity: Identity,
    server: socket.socket,
    *,
    sessions: Sessions,
    keys: SealingKeys,
    registry: CollectorRegistry,
    hidden: tuple[Path, ...],
    stops: bool,
) -> AsyncIterator[Deployer]:
    """A deployer that runs applications on this machine, at work; `server` is the bound socket of its proxy.

    `hidden`: folders that no application may see. `stops`: at the end what runs is stopped; otherwise it is left to
    the next process of this deployer. Raises `BadSettings`.
    """
    raise_open_file_limit()
    deployer: Deployer
    gateways = read_trusted(settings.trusted_proxies)
    callers = CallerLimits.from_settings(settings)
    port = server.getsockname()[1]
    listeners = ListenerOwners.of_this_machine()
    if settings.caddy_admin_url is None:
        proxy = StreamingProxy(
            lambda number: deployer.wake(number),
            trusts=gateways.is_trusted,
            listeners=listeners,
            limits=callers,
            requests_at_once=settings.max_app_requests,
        )
        traffic: Traffic = proxy
    else:
        proxy = StreamingProxy(
            lambda number: deployer.wake(number),
            trusts=_is_loopback,
            listeners=listeners,
            limits=callers,
            requests_at_once=settings.max_app_requests,
        )
        traffic = CaddyTraffic(settings.caddy_admin_url, settings.caddy_listen, Target(port), proxy)
        port = int(settings.caddy_listen.rpartition(":")[2])
    limits = Limits(processes=settings.deploy_processes, memory_bytes=settings.deploy_memory_bytes)
    driver = LocalDriver(
        identity,
        traffic,
        lambda number, instances: deployer.report(number, instances),
        hidden=hidden,
        limits=limits,
        drain_seconds=settings.deploy_drain_seconds,
        listeners=listeners,
    )
    metrics = DeployerMetrics()
    registry.register(metrics)
    builds = asyncio.Semaphore(settings.deploy_builds)
    shop = Workshop(sessions, keys, driver, builds, settings.deploy_log_bytes, metrics)
    names = Names(settings.deploy_domain, settings.deploy_port or port)
    guard = DatabaseGuard(sessions, identity.folder)
    deployer = Deployer(shop, identity, names, guard, gives_up=stops)
    try:
        deployer.missing_confinement = await _describe_missing_confinement()
        await driver.find_orphans()
        live = await _read_live(sessions, guard, identity, names)
        # Route requests to the local instances until the other deployer has running ones. Requests for an environment
        # without instances are not held.
        moved = driver.first_routes(guard.last_moved).items()
        routes = {number: route for number, route in moved if route.targets}
        routes.update(driver.first_routes(live))
        await proxy.set_routes(routes)
        await proxy.serve(server)
        if traffic is not proxy:
            await _set_first(traffic, routes)
        async with deploying(deployer), _ensured(traffic):
            yield deployer
    finally:
        await driver.close(stops=stops)
        await traffic.close()
        if traffic is not proxy:
            await proxy.close()
        listeners.close()
        # Last: the disk may not respond, and the applications are stopped nevertheless.
        await guard.close()


async def _describe_missing_confinement() -> str | None:
    """Log which confinements this machine lacks, and return them in one line; None if all are available."""
    missing = await probe_confinement()
    faults = []
    if missing.namespaces is not None:
        faults.append(
            "Linux namespaces are not available: only users and limits confine applications "
            f"({missing.namespaces})"
        )
        if groups := operator_groups():
            faults.append(
                f"applications inherit the groups {', '.join(map(str, groups))} of the user who runs Pharos, and "
                "membership in `docker` gives them root: run Pharos as a user in no other groups"
            )
    if missing.filter is not None:
        faults.append(
            f"seccomp filters are not available: applications can use all system calls ({missing.filter})"
        )
    for fault in faults:
        logger.warning("%s", fault)
    return "; ".join(faults) or None


async def _read_live(
    sessions: Sessions, guard: DatabaseGuard, identity: Identity, names: Names
) -> Mapping[int, LastLive]:
    """What is to be served: by the database, or as it was when it was last read, where it is away or another one."""
    try:
        await guard.check()
        overview = await read_overview(sessions, identity.id, names)
        await guard.remember_live(overview)
        live = guard.last_live
    except (SQLAlchemyError, DatabaseRefused) as error:
        logger.warning("requests go to what was live before: %s", error)
        live = guard.last_live or await _read_unremembered(sessions, identity, names)
    return {number: one for number, one in live.items() if one.hosts}


async def _read_unremembered(sessions: Sessions, identity: Identity, names: Names) -> Mapping[int, LastLive]:
    """What is live by a database that is not to be believed otherwise: to route to what runs harms nobody."""
    try:
        return live_of(await read_overview(sessions, identity.id, names))
    except SQLAlchemyError as error:
        logger.warning("requests find nothing until the database answers: %s", error)
        return {}


async def _set_first(traffic: Traffic, routes: Mapping[int, Route]) -> None:
    try:
        await traffic.set_routes(routes)
    except TrafficUnavailable as error:
        # It may be started later: it gets them then.
        logger.warning("%s", error)


def _is_loopback(peer: str) -> bool:
    """Caddy runs on this machine, and tells truly who has called."""
    return peer in ("127.0.0.1", "::1")


@asynccontextmanager
async def _ensured(traffic: Traffic) -> AsyncIterator[None]:
    """Meanwhile a Caddy that was started anew gets its routes again."""
    if not isinstance(traffic, CaddyTraffic):
        yield
        return
    task = asyncio.create_task(_keep_ensured(traffic), name="caddy")
    try:
        yield
    finally:
        await end_tasks(task)


async def _keep_ensured(traffic: CaddyTraffic) -> None:
    # Nothing tells of a Caddy that was started anew.
    while True:
        await asyncio.sleep(_ENSURE_SECONDS)
        try:
            if await traffic.ensure():
                logger.warning("Caddy had lost its routes; it has them again")
        except TrafficUnavailable as error:
            logger.warning("%s", error)
