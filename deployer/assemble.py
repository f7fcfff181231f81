"""Builds a deployer from the settings, and runs it."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry
from sqlalchemy.exc import SQLAlchemyError

from control_domain.database.engine import Sessions
from control_domain.sealing import SealingKeys
from deployer.application_telemetry import ApplicationTelemetry, PublishKey, choose_telemetry_url
from deployer.database_guard import DatabaseGuard, list_live
from deployer.database_memory import DatabaseRefused
from deployer.deployments.log import utc_now
from deployer.deployments.run_deployment import DeployContext
from deployer.drivers.interface import Handover, LastLive
from deployer.drivers.local.driver import LocalDriver
from deployer.drivers.local.layout import OUTPUTS
from deployer.environments.desired_states import Hostnames, read_desired_states
from deployer.identity import Identity
from deployer.listeners.owners import ListenerOwners
from deployer.metrics import DeployerMetrics
from deployer.output_logs.ship_output import shipping_output
from deployer.processes.confinement import Limits
from deployer.processes.open_files import raise_open_file_limit
from deployer.processes.operator_account import operator_groups
from deployer.processes.start_process import probe_confinement
from deployer.run_deployer import Deployer, running_deployer
from deployer.shield import end_tasks
from deployer.traffic.caddy import CaddyTraffic
from deployer.traffic.interface import Route, Target, Traffic, TrafficUnavailable
from deployer.traffic.proxy.bounded_server import CallerLimits
from deployer.traffic.proxy.streaming import StreamingProxy
from pipeline_contracts.client_address import parse_trusted_proxies
from pipeline_contracts.settings import Settings

logger = logging.getLogger(__name__)

_RESTORE_SECONDS = 5.0


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
    local_edge: str | None = None,
    publish_key: PublishKey | None = None,
) -> AsyncIterator[Deployer]:
    """Run a deployer for this machine within the context; `server` is the bound socket of its proxy.

    `hidden`: folders that no application may see. `stops`: end the applications when the context ends. Otherwise the
    next process of this deployer takes the applications over. `local_edge`: the URL of the edge in this process.
    `publish_key`: see `ApplicationTelemetry`. Raises `BadSettings`.
    """
    url = choose_telemetry_url(settings, local_edge)
    if url is None:
        logger.warning(
            "applications get no variables for telemetry, and their output is not stored as logs: set "
            "PHAROS_DEPLOY_TELEMETRY_URL or PHAROS_PUBLIC_URL to the URL of the edge"
        )
    telemetry = ApplicationTelemetry(sessions, keys, utc_now, url, publish=publish_key)
    raise_open_file_limit()
    deployer: Deployer
    gateways = parse_trusted_proxies(settings.trusted_proxies)
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
    context = DeployContext(sessions, keys, driver, builds, settings.deploy_log_bytes, metrics, telemetry)
    names = Hostnames(settings.deploy_domain, settings.deploy_port or port)
    guard = DatabaseGuard(sessions, identity.folder, driver.read_traces)
    deployer = Deployer(context, identity, names, guard, releases_leases=stops)
    try:
        deployer.missing_confinement = await _describe_missing_confinement()
        routes = await _find_first_routes(driver, sessions, guard, identity, names)
        await proxy.set_routes(routes)
        await proxy.serve(server)
        if traffic is not proxy:
            await _set_first_routes(traffic, routes)
        shipping = shipping_output(identity.folder / OUTPUTS, telemetry)
        async with running_deployer(deployer), _restoring_routes(traffic), shipping as describe_stopped:
            deployer.describe_stopped_output = describe_stopped
            yield deployer
    finally:
        await driver.close(stops=stops)
        await traffic.close()
        if traffic is not proxy:
            await proxy.close()
        listeners.close()
        # Do this last, so that the applications are stopped even if the disk does not respond.
        await guard.close()


async def _describe_missing_confinement() -> str | None:
    """Log which kinds of confinement this machine lacks, and return them in one line. None if the machine lacks
    none."""
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


async def _find_first_routes(
    handover: Handover, sessions: Sessions, guard: DatabaseGuard, identity: Identity, names: Hostnames
) -> Mapping[int, Route]:
    await handover.find_orphans()
    live = await _read_live(sessions, guard, identity, names)
    # Route requests to the local instances until the other deployer has running ones. Requests for an environment
    # without instances are not held.
    moved = handover.first_routes(guard.last_moved).items()
    routes = {number: route for number, route in moved if route.targets}
    return {**routes, **handover.first_routes(live)}


async def _read_live(
    sessions: Sessions, guard: DatabaseGuard, identity: Identity, names: Hostnames
) -> Mapping[int, LastLive]:
    """Return the live deployments that have host names. If the database is unreachable or refused, return what the
    deployer remembers from its last read of the database."""
    try:
        await guard.check()
        states = await read_desired_states(sessions, identity.id, names)
        await guard.remember_live(states)
        live = guard.last_live
    except (SQLAlchemyError, DatabaseRefused) as error:
        logger.warning("requests go to the releases that were live at the last read: %s", error)
        live = guard.last_live or await _read_unremembered(sessions, identity, names)
    return {number: last for number, last in live.items() if last.hosts}


async def _read_unremembered(
    sessions: Sessions, identity: Identity, names: Hostnames
) -> Mapping[int, LastLive]:
    """Return the live deployments of a refused database when the deployer remembers none. This is safe: it only routes
    requests to instances that run already."""
    try:
        return list_live(await read_desired_states(sessions, identity.id, names))
    except SQLAlchemyError as error:
        logger.warning("requests are not routed until the database is available: %s", error)
        return {}


async def _set_first_routes(traffic: Traffic, routes: Mapping[int, Route]) -> None:
    try:
        await traffic.set_routes(routes)
    except TrafficUnavailable as error:
        # Caddy may start later. It then gets its routes.
        logger.warning("%s", error)


def _is_loopback(peer: str) -> bool:
    """Return True for a connection from this machine: it comes from Caddy, whose X-Forwarded-* headers are trusted."""
    return peer in ("127.0.0.1", "::1")


@asynccontextmanager
async def _restoring_routes(traffic: Traffic) -> AsyncIterator[None]:
    """Within the context, send the routes to Caddy again whenever Caddy has restarted."""
    if not isinstance(traffic, CaddyTraffic):
        yield
        return
    task = asyncio.create_task(_restore_routes(traffic), name="caddy")
    try:
        yield
    finally:
        await end_tasks(task)


async def _restore_routes(traffic: CaddyTraffic) -> None:
    # Caddy does not report that it has restarted.
    while True:
        await asyncio.sleep(_RESTORE_SECONDS)
        try:
            if await traffic.ensure():
                logger.warning("Caddy had lost its routes; it has them again")
        except TrafficUnavailable as error:
            logger.warning("%s", error)
