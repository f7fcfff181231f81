"""The control plane of an installation of separate processes, served by a thread of the tests.

No worker, no deployer and no column store run, so requests that read telemetry fail.
"""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, cast

from control_domain.accounts.operations import create_api_token, create_person
from control_domain.accounts.roles import SCOPES
from control_domain.database.engine import Sessions, open_engine, open_sessions
from control_domain.operators.accounts import resolve_account
from control_domain.sealing import read_sealing_keys
from deployer.drivers.all_drivers import open_process_output
from pipeline_contracts.settings import Settings
from storage_backends.key_directory.redis import open_redis_key_directory
from tests.support.serve_control import serving_control
from wiring.control_plane import assemble_control_plane

OWNER = "owner@control.example"
_SEALING_KEY = "a key for variables of commands on engines"
_RECEIPT_KEY = b"a receipt key of commands on engines"


class ControlAccess(NamedTuple):
    """The URL of a control plane, and a token of the only account's owner."""

    url: str
    token: str


@contextlib.contextmanager
def serving_control_in_thread(settings: Settings) -> Iterator[ControlAccess]:
    """Serve the control plane on the database and the Redis of the settings; give their only account an owner."""
    started: list[ControlAccess] = []
    failures: list[BaseException] = []
    is_ready = threading.Event()
    stopping: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        stop = asyncio.Event()
        stopping.append((asyncio.get_running_loop(), stop))
        async with _running(settings) as access:
            started.append(access)
            is_ready.set()
            await stop.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            failures.append(error)
        finally:
            is_ready.set()

    thread = threading.Thread(target=run, name="control plane")
    thread.start()
    is_ready.wait()
    try:
        if failures:
            raise failures[0]
        yield started[0]
    finally:
        for loop, stop in stopping:
            if not loop.is_closed():
                loop.call_soon_threadsafe(stop.set)
        thread.join()


@contextlib.asynccontextmanager
async def _running(settings: Settings) -> Any:
    assert settings.database_url is not None and settings.redis_url is not None
    async with contextlib.AsyncExitStack() as stack:
        engine = open_engine(settings.database_url)
        stack.push_async_callback(engine.dispose)
        sessions = open_sessions(engine)
        directory = await open_redis_key_directory(settings.redis_url, follow=False)
        stack.push_async_callback(directory.close)
        # No test reads telemetry here.
        no_store: Any = cast(Any, None)
        folder = settings.deploy_folder
        control = assemble_control_plane(
            settings,
            sessions=sessions,
            directory=directory,
            store=no_store,
            report_store=no_store,
            receipt_key=_RECEIPT_KEY,
            sealing_keys=read_sealing_keys(settings.variables_key or _SEALING_KEY),
            process_output=None if folder is None else open_process_output(Path(folder)),
        )
        token = await _create_owner(sessions)
        url = await stack.enter_async_context(serving_control(control.app))
        yield ControlAccess(url, token)


async def _create_owner(sessions: Sessions) -> str:
    """Return a token with all scopes of a new owner of the only account."""
    now = datetime.now(UTC)
    async with sessions() as session, session.begin():
        account = await resolve_account(session, None)
        owner = await create_person(session, account, "Owner of the control plane", OWNER, "owner", now)
        return await create_api_token(session, account, owner, "tests", SCOPES, now)
