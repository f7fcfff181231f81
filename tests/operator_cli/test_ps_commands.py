"""`pharos ps` on both kinds of installation."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncSession

from tests.support import carried_out
from tests.support.commands import Run, ask, refused, tell
from tests.support.followed import Write, deploy, environment_number, make_place, queued


@pytest.fixture
def place(on_engines: Run) -> str:
    return make_place(on_engines)


def test_what_runs_as_a_table(on_engines: Run, write: Write, place: str) -> None:
    environment = environment_number(on_engines, place)
    number = deploy(on_engines, write, place)

    async def run(session: AsyncSession, now: datetime) -> None:
        await carried_out.hold_lease(session, environment, now)
        # So long that another minute, until the command has looked, does not show.
        began = now - timedelta(days=2, hours=5)
        rows = [
            {"process": "web", "port": 40001, "started_at": began},
            {"process": "worker", "state": "waiting", "pid": None, "restarts": 3, "last_exit": "status 1"},
        ]
        await carried_out.run_instances(session, number, now, rows)

    write(run)
    lines = tell(on_engines, "ps", place).splitlines()
    assert lines[0] == f"{place}  {carried_out.ADDRESS}"
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
    assert f"{place}  " in tell(on_engines, "ps")
    (told,) = ask(on_engines, "ps", place)
    assert [one["process"] for one in told["instances"]] == ["web", "worker"]


def test_what_is_under_way_is_held_or_does_not_answer(on_engines: Run, write: Write, place: str) -> None:
    first, _ = (deploy(on_engines, write, place) for _ in range(2))
    environment = environment_number(on_engines, place)
    back = ask(on_engines, "rollback", place, "--to", str(first), "--detach")["id"]

    async def roll_back(session: AsyncSession, now: datetime) -> None:
        await carried_out.begin(session, back, now)
        await carried_out.bring_live(session, back, now)
        await carried_out.hold_lease(session, environment, now, doing="idle hands")

    write(roll_back)
    ask(on_engines, "deploy", place, "--detach")
    number = queued(on_engines, place)
    write(lambda session, now: carried_out.begin(session, number, now))
    told = tell(on_engines, "ps", place)
    assert f"  release   deployment {back}, " in told
    assert f"  state     running, deploying {number}: build\n" in told
    held = ask(on_engines, "environment", "show", place)["id"]
    assert f"  held      rolled back: no push deploys here until `pharos environment resume {held}`\n" in told
    assert f"  deployer  {carried_out.HOLDER}, idle hands\n" in told
    write(lambda session, now: carried_out.hold_lease(session, environment, now, seconds=-5 * 3600))
    told = tell(on_engines, "ps", place)
    assert f"  deployer  {carried_out.HOLDER} has not responded for 5h" in told


def test_an_environment_where_nothing_runs(pharos: Run) -> None:
    place = make_place(pharos)
    assert tell(pharos, "ps", place).splitlines() == [
        place,
        "  release   nothing is live yet",
        "  state     running",
        "  running   0 of 0 processes",
    ]
    assert place not in tell(pharos, "ps")
    assert refused(pharos, "ps", "nowhere") == (
        "There is no environment nowhere; `pharos environment list` shows all."
    )
