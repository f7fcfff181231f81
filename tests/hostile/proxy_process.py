"""Runs a proxy in a separate process, so that tests can measure its memory and CPU."""

import asyncio
import contextlib
import multiprocessing
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Connection
from typing import NamedTuple

import uvloop

from deployer.traffic.interface import Route, Target
from tests.deployer.traffic.carriers import serve_proxy


class ProxyProcess(NamedTuple):
    """The proxy's port and process."""

    port: int
    pid: int


def _serve(sender: Connection, targets: Mapping[str, int]) -> None:
    async def run() -> None:
        proxy, port = await serve_proxy(grace_seconds=0.1)
        for number, (name, target) in enumerate(targets.items(), 1):
            await proxy.set_route(number, Route((f"{name}.localhost",), (Target(target),), is_awaited=True))
        sender.send(port)
        await asyncio.to_thread(sender.poll, None)
        await proxy.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


@contextlib.contextmanager
def running_proxy(targets: Mapping[str, int]) -> Iterator[ProxyProcess]:
    """Run a proxy on uvloop with the product's default limits; `targets` maps application names to ports."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, targets))
    process.start()
    try:
        port = here.recv()
        assert process.pid is not None
        yield ProxyProcess(port, process.pid)
        here.send(None)
        process.join(30)
    finally:
        process.kill()
        process.join()
