"""Runs the whole platform in this process, for `pharos up`."""

import argparse
import asyncio
import contextlib
import errno
import functools
import gc
import os
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from control_domain.audit import Actor
from control_domain.first_account.account import name_first_environment
from control_domain.operators.sign_in_links import create_first_link, has_nobody_signed_in
from control_domain.sign_in.links import make_sign_in_url
from deployer.identity import FolderInUse
from ingest_edge.listening import PortInUse
from operator_cli.errors import CommandFailed
from operator_cli.messages import format_command
from operator_cli.processes.greeting import (
    data_arguments,
    format_demo_greeting,
    format_forgotten_password,
    format_greeting,
    format_sign_in_command,
    format_sign_in_link,
)
from operator_cli.processes.process_logs import start_logs
from operator_cli.settings import load_settings
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.settings import Settings
from wiring.embedded.allocator import keep_freed_memory
from wiring.embedded.data_folder import DataFolderInUse, DataFolderUnusable
from wiring.embedded.platform import DATABASE, Platform, run_platform

_NEXT_PORT = 1000
_MAX_PORT = 65_000


def run_up(arguments: argparse.Namespace) -> int:
    """Run the platform until a signal. Return the exit status."""
    try:
        settings = load_settings()
        keep_freed_memory()
        start_logs(settings.log_level, settings.log_format)
        # Only the owner may read the data folder.
        os.umask(0o077)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve(arguments, settings))
    except PortInUse as error:
        raise CommandFailed(f"{error}{_suggest_port(arguments, error)}") from error
    except (DataFolderInUse, DataFolderUnusable, FolderInUse, StorageUnavailable) as error:
        raise CommandFailed(str(error)) from error
    except KeyboardInterrupt:
        # The interrupt came before `_serve` installed its signal handlers.
        return _report_early_stop(signal.SIGINT)


def _suggest_port(arguments: argparse.Namespace, error: PortInUse) -> str:
    """Return a command with a free --port, beginning with a space, if another program uses a port.

    The other ports follow --port. An --apps-port does not.
    """
    if error.reason != os.strerror(errno.EADDRINUSE) or arguments.apps_port is not None:
        return ""
    port = arguments.port + _NEXT_PORT if arguments.port < _MAX_PORT - _NEXT_PORT else 0
    return f" For example: {format_command(['up', *data_arguments(arguments.data), '--port', str(port)])}"


async def _serve(arguments: argparse.Namespace, settings: Settings) -> int:
    """Run the platform until a signal and return the exit status. A signal before it is ready cancels the start."""
    signals: list[signal.Signals] = []
    stop, ready = asyncio.Event(), asyncio.Event()

    def on_signal(number: signal.Signals) -> None:
        signals.append(number)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)
    running = asyncio.create_task(_run_until_stopped(arguments, settings, ready, stop))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not ready.is_set():
        # The platform failed, or is still starting: cancellation closes what is open, in order.
        running.cancel()
    try:
        await running
    except asyncio.CancelledError:
        return _report_early_stop(signals[0])
    print("Stopped.", flush=True)
    return 0


def _report_early_stop(number: signal.Signals) -> int:
    print("pharos: Stopped before it was ready.", file=sys.stderr)
    # A service manager expects 0 for an orderly stop, a shell 130 for Ctrl-C.
    return 128 + number if number == signal.SIGINT else 0


def _refuse_demo_in_use(data: Path) -> None:
    """Raise `CommandFailed` for a folder that was started without the demo.

    The demo replaces variables, deploys to production and adds people.
    """
    # Not the credentials: somebody may have deleted them, to get new ones.
    if (data / DATABASE).exists() and not (data / "demo.json").exists():
        raise CommandFailed(
            f"{data} has an installation without the demo, which would change it. Start the demo in another folder: "
            "--demo --data ./.pharos-demo"
        )


def _begin_demo(data: Path, *, is_demo: bool) -> None:
    """Mark a new data folder as one of the demo, before it contains anything else.

    A start with the demo that is killed can then be repeated. A start without the demo removes the mark that such a
    start has left.
    """
    if is_demo:
        from demo.ledger import Ledger

        ledger = Ledger(data / "demo.json")
        if not ledger.has("began"):
            ledger.note("began", int(time.time()))
    else:
        (data / "demo.json").unlink(missing_ok=True)


async def _run_until_stopped(
    arguments: argparse.Namespace, settings: Settings, ready: asyncio.Event, stop: asyncio.Event
) -> None:
    data: Path = arguments.data
    if arguments.demo:
        _refuse_demo_in_use(data)
    async with run_platform(
        data,
        arguments.host,
        arguments.port,
        settings,
        apps_port=arguments.apps_port,
        before_first_start=functools.partial(_begin_demo, data, is_demo=arguments.demo),
        on_phase=_print_phase,
    ) as platform:
        # Objects that live until the end are excluded from each garbage collection.
        gc.collect()
        gc.freeze()
        async with contextlib.AsyncExitStack() as stack:
            is_terminal = sys.stdout.isatty()
            greeting = format_greeting(
                platform.base_url,
                platform.credentials,
                data,
                sign_in=await _make_sign_in_text(platform, data, is_terminal=is_terminal),
                show_key=is_terminal,
                environment=await _choose_environment(platform, is_demo=arguments.demo),
            )
            print(greeting, flush=True)
            if arguments.demo:
                # Imported only with --demo, which most starts go without.
                from demo.run_demo import DemoSiteRemoved, running_demo

                try:
                    shop = await stack.enter_async_context(running_demo(platform, data))
                except DemoSiteRemoved as error:
                    raise CommandFailed(
                        f"The demo needs the first site: {error} Leave --demo out."
                    ) from error
                print(format_demo_greeting(platform.credentials["site"]["id"], data, shop), flush=True)
            ready.set()
            await stop.wait()
            print("Stopping: storing all accepted data.", flush=True)


async def _choose_environment(platform: Platform, *, is_demo: bool) -> str | None:
    """Return the environment that the printed commands name; None if there is only one.

    The first start of the demo adds others after the greeting is printed.
    """
    found = await name_first_environment(platform.sessions, platform.credentials["account_id"])
    if found is None:
        return None
    name, has_others = found
    return name if has_others or is_demo else None


async def _make_sign_in_text(platform: Platform, data: Path, *, is_terminal: bool) -> str:
    """Return how the first person signs in to the dashboard, or how anybody does once somebody has a password.

    The secret of a link is for a terminal only: other output ends up in logs.
    """
    if not is_terminal:
        is_first = await has_nobody_signed_in(platform.sessions)
        return format_sign_in_command(data) if is_first else format_forgotten_password(data)
    actor = Actor("start of the installation")
    secret = await create_first_link(platform.sessions, actor, datetime.now(UTC))
    if secret is None:
        return format_forgotten_password(data)
    return format_sign_in_link(make_sign_in_url(platform.base_url.removesuffix("/api"), secret))


def _print_phase(description: str) -> None:
    print(f"  {description} …", flush=True)
