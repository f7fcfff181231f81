"""Probes of an instance continue until the instance is ready."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from control_domain.workflows.document import Process
from deployer.drivers.local import instance as instance_module
from deployer.drivers.local.instance import Instance, Mark
from deployer.listeners.owners import ListenerOwners


async def test_a_probe_that_fails_unexpectedly_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_module, "_SETTLED_SECONDS", 0.0)
    faults = [ValueError("a defect")]
    ready = asyncio.Event()

    async def probe(*_args: Any) -> None:
        if faults:
            raise faults.pop()

    def note_change() -> None:
        if instance.is_ready:
            ready.set()

    monkeypatch.setattr(instance_module, "wait_healthy", probe)
    running: Any = SimpleNamespace(state="running", last_exit=None)
    listeners = ListenerOwners(None, has_own_users=True)
    instance = Instance(
        Mark("dpl_test", 1, 1, "web", 1, 20_000),
        Process("web", "true"),
        "host",
        note_change,
        running,
        listeners,
    )
    instance.changed()
    async with asyncio.timeout(10):
        await ready.wait()
