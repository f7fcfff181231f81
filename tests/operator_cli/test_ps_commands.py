"""`pharos ps` on a control plane without a deployer, whose rows the tests write."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncSession

from tests.support import deployment_rows
from tests.support.command_deployments import (
    WriteRows,
    deploy_and_finish,
    make_environment,
    read_environment_number,
    wait_queued,
)
from tests.support.commands import RunCommand, expect_refusal, run_json, run_text

HOST = deployment_rows.HOLDER.partition(":")[0]


@pytest.fixture
def environment_path(on_engines: RunCommand) -> str:
    return make_environment(on_engines)


def test_running_processes_are_listed_as_a_table(
    on_engines: RunCommand, write: WriteRows, environment_path: str
) -> None:
    environment = read_environment_number(on_engines, environment_path)
    number = deploy_and_finish(on_engines, write, environment_path)

    async def run(session: AsyncSession, now: datetime) -> None:
        await deployment_rows.lease_environment(session, environment, now)
        # So old that another minute does not change the printed age.
        began = now - timedelta(days=2, hours=5)
        rows = [
            {"process": "web", "port": 40001, "started_at": began},
            {"process": "worker", "state": "waiting", "pid": None, "restarts": 3, "last_exit": "status 1"},
        ]
        await deployment_rows.replace_instances(session, number, now, rows)

    write(run)
    lines = run_text(on_engines, "ps", environment_path).splitlines()
    assert lines[0] == f"{environment_path}  {deployment_rows.ADDRESS}"
    revision = deployment_rows.REVISION[:12]
    assert lines[1].startswith(f"  release   deployment {number}, {revision}, since ")
    assert lines[2:5] == [
        "  state     running",
        "  running   1 of 3 processes",
        f"  deployer  {HOST}",
    ]
    assert lines[5].split() == ["Process", "State", "PID", "Port", "Up", "Restarts", "Last", "exit"]
    assert lines[6].split() == ["web.1", "running", "4711", "40001", "2d", "5h", "0", "-"]
    assert lines[7].split()[:4] == ["worker.1", "waiting", "-", "-"]
    assert lines[7].split()[-3:] == ["3", "status", "1"]
    assert f"{environment_path}  " in run_text(on_engines, "ps")
    assert max(map(len, lines)) <= 80
    (output,) = run_json(on_engines, "ps", environment_path)
    assert [one["process"] for one in output["instances"]] == ["web", "worker"]


def test_deployments_in_progress_rollbacks_and_silent_deployers_are_shown(
    on_engines: RunCommand, write: WriteRows, environment_path: str
) -> None:
    first, _ = (deploy_and_finish(on_engines, write, environment_path) for _ in range(2))
    environment = read_environment_number(on_engines, environment_path)
    back = run_json(on_engines, "rollback", environment_path, "--to", str(first), "--detach")["id"]

    async def roll_back(session: AsyncSession, now: datetime) -> None:
        await deployment_rows.begin_deployment(session, back, now)
        await deployment_rows.complete_deployment(session, back, now)
        await deployment_rows.lease_environment(session, environment, now, doing="idle hands")

    write(roll_back)
    run_json(on_engines, "deploy", environment_path, "--detach")
    number = wait_queued(on_engines, environment_path)
    write(lambda session, now: deployment_rows.begin_deployment(session, number, now))
    output = run_text(on_engines, "ps", environment_path)
    assert f"  release   deployment {back}, " in output
    assert f"  state     running, deploying {number}: build\n" in output
    assert f"until `pharos environment resume {environment_path}`\n" in output
    assert f"  deployer  {HOST}, idle hands\n" in output
    write(
        lambda session, now: deployment_rows.lease_environment(session, environment, now, seconds=-5 * 3600)
    )
    output = run_text(on_engines, "ps", environment_path)
    assert f"  deployer  {HOST} has not responded for 5h" in output


def test_an_environment_without_processes_is_shown(on_engines: RunCommand, environment_path: str) -> None:
    assert run_text(on_engines, "ps", environment_path).splitlines() == [
        environment_path,
        "  release   nothing is live yet",
        "  state     running",
        "  running   0 of 0 processes",
    ]
    assert environment_path not in run_text(on_engines, "ps")
    assert expect_refusal(on_engines, "ps", "nowhere", status=5).startswith(
        "There is no environment 'nowhere'."
    )
