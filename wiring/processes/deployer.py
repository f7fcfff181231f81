"""Runs the deployer as a process: runs queued deployments on this machine."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry

from control_domain.database.engine import open_engine, open_sessions
from control_domain.sealing import read_sealing_keys
from deployer.assemble import running_local_deployer
from deployer.identity import hold_identity
from ingest_edge.serve_metrics import serve_metrics
from pipeline_contracts.settings import BadSettings, Settings
from wiring.processes.health_server import serve_health
from wiring.processes.prerequisites import require_settings


@asynccontextmanager
async def run_deployer(
    settings: Settings, server: socket.socket, *, apps: socket.socket, stops: bool
) -> AsyncIterator[None]:
    """Run the deployer, with its health on `server` and its proxy on `apps`. `stops`: stop the applications at the end;
    otherwise the next process of this deployer takes them over.

    Raises `BadSettings`, also for an unusable folder, and `FolderInUse`.
    """
    database_url, variables_key, folder = require_settings(
        settings, "database_url", "variables_key", "deploy_folder"
    )
    async with AsyncExitStack() as stack:
        try:
            identity = await asyncio.to_thread(lambda: stack.enter_context(hold_identity(Path(folder))))
        except OSError as error:
            raise BadSettings(
                f"PHAROS_DEPLOY_FOLDER: {error.filename or folder} cannot be used: {error.strerror or error}. Set it "
                "to a folder that the user who runs the deployer can write."
            ) from error
        registry = CollectorRegistry()
        engine = open_engine(database_url)
        stack.push_async_callback(engine.dispose)
        deployer = await stack.enter_async_context(
            running_local_deployer(
                settings,
                identity,
                apps,
                sessions=open_sessions(engine),
                keys=read_sealing_keys(variables_key),
                registry=registry,
                hidden=(identity.folder,),
                stops=stops,
            )
        )
        await serve_metrics(stack, settings.metrics_listen, server, registry)
        readiness = await serve_health(stack, server, {"deployer": lambda: deployer.failing})
        readiness.warnings["confinement"] = lambda: deployer.missing_confinement
        readiness.warnings["output_logs"] = lambda: deployer.describe_stopped_output()
        yield
