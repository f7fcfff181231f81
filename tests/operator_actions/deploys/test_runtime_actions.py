"""What an operator sees of what runs, and of what it prints; on both databases."""

import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from deployer.drivers.local.process_output import LocalProcessOutput
from pipeline_contracts.times import format_time
from tests.support import deployment_rows
from tests.support.managed_project import NOW, REVISION, ManagedProject

AT = "2026-11-18T12:00:00.000Z"


async def _bring_live(managed: ManagedProject, *rows: dict[str, Any]) -> int:
    """A deployment that is live, and these processes of it."""
    number: int = (await managed.act("deployments/deploy"))["id"]
    async with managed.engines.sessions() as session, session.begin():
        await deployment_rows.lease_environment(session, managed.environment.id, NOW)
        await deployment_rows.begin_deployment(session, number, NOW)
        await deployment_rows.complete_deployment(session, number, NOW)
        await deployment_rows.replace_instances(session, number, NOW, rows)
    return number


@pytest.mark.both_databases
async def test_running_processes_are_listed(managed: ManagedProject) -> None:
    assert await managed.act("runtime/list") == []
    number = await _bring_live(
        managed,
        {"process": "worker", "number": 1, "state": "waiting", "restarts": 3, "last_exit": "exit status 1"},
        {"process": "web", "number": 1, "port": 40001},
    )
    await managed.change_environment(desired_replicas=3)
    (told,) = await managed.act("runtime/list")
    web = {
        "process": "web",
        "number": 1,
        "deployment_id": number,
        "state": "running",
        "pid": 4711,
        "port": 40001,
        "restarts": 0,
        "last_exit": None,
        "started_at": AT,
    }
    worker = {"process": "worker", "state": "waiting", "port": None, "restarts": 3}
    assert told["instances"] == [web, {**web, **worker, "last_exit": "exit status 1"}]
    assert told["live"] == {"deployment_id": number, "revision": REVISION, "since": AT, "held": False}
    until = told["deployer"].pop("until")
    assert until > format_time(datetime.now(UTC))
    assert told["deployer"] == {"name": deployment_rows.HOLDER, "answers": True, "doing": None}
    assert (told["address"], told["active_deployment"]) == (deployment_rows.ADDRESS, None)
    # Of web the environment says how many, of the workers the workflow document: 3 and 2.
    assert (told["wanted"], told["running"], told["desired_replicas"]) == (5, 1, 3)
    assert (told["number"], told["project"]["slug"]) == (managed.environment.id, "shop")


async def test_what_is_under_way_and_what_does_not_answer(managed: ManagedProject) -> None:
    first = await _bring_live(managed)
    await _bring_live(managed)
    back = (await managed.act("deployments/roll-back", to=first))["id"]
    async with managed.engines.sessions() as session, session.begin():
        await deployment_rows.begin_deployment(session, back, NOW)
        await deployment_rows.complete_deployment(session, back, NOW)
    number = await managed.queue()
    async with managed.engines.sessions() as session, session.begin():
        await deployment_rows.begin_deployment(session, number, NOW)
        await deployment_rows.lease_environment(
            session, managed.environment.id, NOW, seconds=-60, doing="building"
        )
    await managed.change_environment(state="hibernated")
    (told,) = await managed.act("runtime/list")
    assert told["live"]["held"] is True
    assert told["live"]["deployment_id"] == back
    assert told["active_deployment"] == {"id": number, "status": "deploying", "step": "build"}
    assert (told["deployer"]["answers"], told["deployer"]["doing"]) == (False, "building")
    assert (told["state"], told["wanted"]) == ("hibernated", 0)


@pytest.mark.both_databases
async def test_an_environment_is_shown_in_every_state(managed: ManagedProject) -> None:
    staging = await managed.act("environments/create", name="Staging", type="staging")
    assert await managed.act("runtime/list") == []
    (told,) = await managed.act("runtime/list", environment_id="staging")
    assert (told["id"], told["live"], told["deployer"], told["instances"]) == (staging["id"], None, None, [])
    assert "There is no environment nowhere;" in await managed.expect_refusal(
        "runtime/list", environment_id="nowhere"
    )
    number = await managed.queue()
    (told,) = await managed.act("runtime/list")
    assert told["active_deployment"] == {"id": number, "status": "queued", "step": None}


@pytest.fixture
def outputs(managed: ManagedProject, tmp_path: Path) -> Path:
    """The folder of the environment's output, on the machine of its deployer."""
    managed.engines = dataclasses.replace(managed.engines, process_output=LocalProcessOutput(tmp_path))
    folder = tmp_path / "outputs" / managed.environment.public_id / "1"
    folder.mkdir(parents=True)
    return folder


async def _read(managed: ManagedProject, **wanted: Any) -> dict[str, Any]:
    """The outputs by name."""
    told = await managed.act("runtime/output", environment_id="production", **wanted)
    assert told["environment"] == "shop/production"
    return {output["name"]: output for output in told["outputs"]}


async def test_output_is_read_from_its_end_and_then_on(managed: ManagedProject, outputs: Path) -> None:
    (outputs / "web.1.log").write_bytes(b"one\ntw\xc3\xb6\nthr")
    (outputs / "worker.10.log").write_bytes(b"")
    (outputs / "worker.9.log").write_bytes(b"nine\n")
    (outputs / "other.txt").write_bytes(b"no output\n")
    told = await _read(managed)
    assert list(told) == ["web.1", "worker.9", "worker.10"]
    assert told["web.1"] == {
        "key": "1/web.1",
        "name": "web.1",
        "process": "web",
        "number": 1,
        "offset": 9,
        "text": "one\ntwö\n",
        "rest": "thr",
        "cut": False,
    }
    (outputs / "web.1.log").write_bytes(b"one\ntw\xc3\xb6\nthree\nfour\n")
    offsets = {output["key"]: output["offset"] for output in told.values()}
    told = await _read(managed, offsets=offsets)
    assert [output["text"] for output in told.values()] == ["three\nfour\n", "", ""]
    assert told["web.1"]["offset"] == 20


async def test_only_output_of_running_processes_is_read(managed: ManagedProject, outputs: Path) -> None:
    for name in ("web.1", "web.2", "worker.1"):
        (outputs / f"{name}.log").write_text("a\n")
    assert list(await _read(managed)) == ["web.1", "web.2", "worker.1"]
    number = await _bring_live(managed, {"process": "web", "number": 1})
    # The folder is that of the first deployment; a later one has its own, and only that one runs.
    assert number == 1 and list(await _read(managed)) == ["web.1"]
    later = outputs.parent / "7"
    later.mkdir()
    (later / "web.1.log").write_text("b\n")
    assert [output["text"] for output in (await _read(managed)).values()] == ["a\n"]


async def test_output_that_lies_elsewhere(managed: ManagedProject, tmp_path: Path) -> None:
    line = await managed.expect_refusal("runtime/output", environment_id="production")
    assert line == "Nothing of shop/production has run yet: `pharos deploy shop/production` deploys it."
    await _bring_live(managed)
    elsewhere = (
        f"The output of shop/production lies with its deployer. Ask on {deployment_rows.HOLDER}, with "
        "PHAROS_DEPLOY_FOLDER set."
    )
    assert await managed.expect_refusal("runtime/output", environment_id="production") == elsewhere
    managed.engines = dataclasses.replace(managed.engines, process_output=LocalProcessOutput(tmp_path))
    assert await managed.expect_refusal("runtime/output", environment_id="production") == elsewhere
    async with managed.engines.sessions() as session, session.begin():
        here = f"web1:{tmp_path.resolve()}"
        until = NOW + timedelta(hours=1)
        await deployment_rows.lease_environment(session, managed.environment.id, until, holder_name=here)
    line = await managed.expect_refusal("runtime/output", environment_id="production")
    assert line.startswith("Nothing of shop/production has run yet:")
