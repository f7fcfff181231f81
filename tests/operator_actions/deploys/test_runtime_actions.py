"""What an operator sees of what runs, and of what it prints; on both databases."""

import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from deployer.drivers.local.process_output import LocalProcessOutput
from pipeline_contracts.times import format_time
from tests.support import carried_out
from tests.support.operated import NOW, REVISION, Operated

AT = "2026-11-18T12:00:00.000Z"


async def _bring_live(operated: Operated, *rows: dict[str, Any]) -> int:
    """A deployment that is live, and these processes of it."""
    number: int = (await operated.act("deployments/deploy"))["id"]
    async with operated.engines.sessions() as session, session.begin():
        await carried_out.hold_lease(session, operated.environment.id, NOW)
        await carried_out.begin(session, number, NOW)
        await carried_out.bring_live(session, number, NOW)
        await carried_out.run_instances(session, number, NOW, rows)
    return number


@pytest.mark.both_databases
async def test_running_processes_are_listed(operated: Operated) -> None:
    assert await operated.act("runtime/list") == []
    number = await _bring_live(
        operated,
        {"process": "worker", "number": 1, "state": "waiting", "restarts": 3, "last_exit": "exit status 1"},
        {"process": "web", "number": 1, "port": 40001},
    )
    await operated.change_environment(desired_replicas=3)
    (told,) = await operated.act("runtime/list")
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
    assert told["deployer"] == {"name": carried_out.HOLDER, "answers": True, "doing": None}
    assert (told["address"], told["active_deployment"]) == (carried_out.ADDRESS, None)
    # Of web the environment says how many, of the workers the workflow document: 3 and 2.
    assert (told["wanted"], told["running"], told["desired_replicas"]) == (5, 1, 3)
    assert (told["number"], told["project"]["slug"]) == (operated.environment.id, "shop")


async def test_what_is_under_way_and_what_does_not_answer(operated: Operated) -> None:
    first = await _bring_live(operated)
    await _bring_live(operated)
    back = (await operated.act("deployments/roll-back", to=first))["id"]
    async with operated.engines.sessions() as session, session.begin():
        await carried_out.begin(session, back, NOW)
        await carried_out.bring_live(session, back, NOW)
    number = await operated.queue()
    async with operated.engines.sessions() as session, session.begin():
        await carried_out.begin(session, number, NOW)
        await carried_out.hold_lease(session, operated.environment.id, NOW, seconds=-60, doing="building")
    await operated.change_environment(state="hibernated")
    (told,) = await operated.act("runtime/list")
    assert told["live"]["held"] is True
    assert told["live"]["deployment_id"] == back
    assert told["active_deployment"] == {"id": number, "status": "deploying", "step": "build"}
    assert (told["deployer"]["answers"], told["deployer"]["doing"]) == (False, "building")
    assert (told["state"], told["wanted"]) == ("hibernated", 0)


@pytest.mark.both_databases
async def test_an_environment_is_shown_in_every_state(operated: Operated) -> None:
    staging = await operated.act("environments/create", name="Staging", type="staging")
    assert await operated.act("runtime/list") == []
    (told,) = await operated.act("runtime/list", environment_id="staging")
    assert (told["id"], told["live"], told["deployer"], told["instances"]) == (staging["id"], None, None, [])
    assert "There is no environment nowhere;" in await operated.refused(
        "runtime/list", environment_id="nowhere"
    )
    number = await operated.queue()
    (told,) = await operated.act("runtime/list")
    assert told["active_deployment"] == {"id": number, "status": "queued", "step": None}


@pytest.fixture
def outputs(operated: Operated, tmp_path: Path) -> Path:
    """The folder of the environment's output, on the machine of its deployer."""
    operated.engines = dataclasses.replace(operated.engines, process_output=LocalProcessOutput(tmp_path))
    folder = tmp_path / "outputs" / operated.environment.public_id / "1"
    folder.mkdir(parents=True)
    return folder


async def _read(operated: Operated, **wanted: Any) -> dict[str, Any]:
    """The outputs by name."""
    told = await operated.act("runtime/output", environment_id="production", **wanted)
    assert told["environment"] == "shop/production"
    return {output["name"]: output for output in told["outputs"]}


async def test_output_is_read_from_its_end_and_then_on(operated: Operated, outputs: Path) -> None:
    (outputs / "web.1.log").write_bytes(b"one\ntw\xc3\xb6\nthr")
    (outputs / "worker.10.log").write_bytes(b"")
    (outputs / "worker.9.log").write_bytes(b"nine\n")
    (outputs / "other.txt").write_bytes(b"no output\n")
    told = await _read(operated)
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
    told = await _read(operated, offsets=offsets)
    assert [output["text"] for output in told.values()] == ["three\nfour\n", "", ""]
    assert told["web.1"]["offset"] == 20


async def test_only_output_of_running_processes_is_read(operated: Operated, outputs: Path) -> None:
    for name in ("web.1", "web.2", "worker.1"):
        (outputs / f"{name}.log").write_text("a\n")
    assert list(await _read(operated)) == ["web.1", "web.2", "worker.1"]
    number = await _bring_live(operated, {"process": "web", "number": 1})
    # The folder is that of the first deployment; a later one has its own, and only that one runs.
    assert number == 1 and list(await _read(operated)) == ["web.1"]
    later = outputs.parent / "7"
    later.mkdir()
    (later / "web.1.log").write_text("b\n")
    assert [output["text"] for output in (await _read(operated)).values()] == ["a\n"]


async def test_output_that_lies_elsewhere(operated: Operated, tmp_path: Path) -> None:
    line = await operated.refused("runtime/output", environment_id="production")
    assert line == "Nothing of shop/production has run yet: `pharos deploy shop/production` deploys it."
    await _bring_live(operated)
    elsewhere = (
        f"The output of shop/production lies with its deployer. Ask on {carried_out.HOLDER}, with PHAROS_DEPLOY_FOLDER "
        "set."
    )
    assert await operated.refused("runtime/output", environment_id="production") == elsewhere
    operated.engines = dataclasses.replace(operated.engines, process_output=LocalProcessOutput(tmp_path))
    assert await operated.refused("runtime/output", environment_id="production") == elsewhere
    async with operated.engines.sessions() as session, session.begin():
        here = f"web1:{tmp_path.resolve()}"
        until = NOW + timedelta(hours=1)
        await carried_out.hold_lease(session, operated.environment.id, until, holder_name=here)
    line = await operated.refused("runtime/output", environment_id="production")
    assert line.startswith("Nothing of shop/production has run yet:")
