"""`pharos ps` on both kinds of installation."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncSession

from tests.support import carried_out
from tests.support.commands import Run, ask, refused, tell
from tests.support.followed import Write, deploy, environment_number, make_place, queued


@pytest.fixture
def environment_path(on_engines: Run) -> str:
    return make_place(on_engines)


def test_running_processes_are_listed_as_a_table(
    on_engines: Run, write: Write, environment_path: str
) -> None:
    environment = environment_number(on_engines, environment_path)
    number = deploy(on_engines, write, environment_path)

    async def run(session: AsyncSession, now: datetime) -> None:
        await carried_out.hold_lease(session, environment, now)
        # So old that another minute does not change the printed age.
        began = now - timedelta(days=2, hours=5)
        rows = [
            {"process": "web", "port": 40001, "started_at": began},
            {"process": "worker", "state": "waiting", "pid": None, "restarts": 3, "last_exit": "status 1"},
        ]
        await carried_out.run_instances(session, number, now, rows)

    write(run)
    lines = tell(on_engines, "ps", environment_path).splitlines()
    assert lines[0] == f"{environment_path}  {carried_out.ADDRESS}"
    revision = carried_out.REVISION[:12]
    assert lines[1].startswith(f"  release   deployment {number}, {revision}, since ")
    assert lines[2:5] == [
        "  state     running",
        "  running   1 of 3 processes",
        f"  deployer  {carried_out.HOLDER}",
    ]
    assert lines[5].split() == ["Process", "State", "PID", "Port", "Up", "Restarts", "Last", "exit"]
    assert lines[6].split() == ["web.1", "running", "4711", "40001", "2d", "5h", "0", "-"]
    assert lines[7].split()[:4] == ["worker.1", "waiting", "-", "-"]
    assert lines[7].split()[-3:] == ["3", "status", "1"]
    assert f"{environment_path}  " in tell(on_engines, "ps")
    (output,) = ask(on_engines, "ps", environment_path)
    assert [one["process"] for one in output["instances"]] == ["web", "worker"]


def test_deployments_in_progress_rollbacks_and_silent_deployers_are_shown(
    on_engines: Run, write: Write, environment_path: str
) -> None:
    first, _ = (deploy(on_engines, write, environment_path) for _ in range(2))
    environment = environment_number(on_engines, environment_path)
    back = ask(on_engines, "rollback", environment_path, "--to", str(first), "--detach")["id"]

    async def roll_back(session: AsyncSession, now: datetime) -> None:
        await carried_out.begin(session, back, now)
        await carried_out.bring_live(session, back, now)
        await carried_out.hold_lease(session, environment, now, doing="idle hands")

    write(roll_back)
    ask(on_engines, "deploy", environment_path, "--detach")
    number = queued(on_engines, environment_path)
    write(lambda session, now: carried_out.begin(session, number, now))
    output = tell(on_engines, "ps", environment_path)
    assert f"  release   deployment {back}, " in output
    assert f"  state     running, deploying {number}: build\n" in output
    held = ask(on_engines, "environment", "show", environment_path)["id"]
    assert (
        f"  held      rolled back: no push deploys here until `pharos environment resume {held}`\n" in output
    )
    assert f"  deployer  {carried_out.HOLDER}, idle hands\n" in output
    write(lambda session, now: carried_out.hold_lease(session, environment, now, seconds=-5 * 3600))
    output = tell(on_engines, "ps", environment_path)
    assert f"  deployer  {carried_out.HOLDER} has not responded for 5h" in output


def test_an_environment_without_processes_is_shown(pharos: Run) -> None:
    environment_path = make_place(pharos)
    assert tell(pharos, "ps", environment_path).splitlines() == [
        environment_path,
        "  release   nothing is live yet",
        "  state     running",
        "  running   0 of 0 processes",
    ]
    assert environment_path not in tell(pharos, "ps")
    assert refused(pharos, "ps", "nowhere") == (
        "There is no environment nowhere; `pharos environment list` shows all."
    )
