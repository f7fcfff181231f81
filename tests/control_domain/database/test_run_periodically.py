"""Background loops: they continue through outages and faults, run immediately on wake, and end cleanly."""

import asyncio
import logging
from collections.abc import Iterable

import pytest
from sqlalchemy.exc import OperationalError

from control_domain.database.run_periodically import Throttle, run_periodically

_LOGGER = logging.getLogger("tests.round")
_OFTEN = 0.01


def _away() -> OperationalError:
    return OperationalError("SELECT 1", None, ConnectionRefusedError("refused"))


class _Rounds:
    """Each iteration raises the next of these errors. The loop stops after the last."""

    def __init__(self, errors: Iterable[Exception | None] = ()) -> None:
        self.stop = asyncio.Event()
        self.begun: list[float] = []
        self._errors = list(errors)

    async def __call__(self) -> None:
        self.begun.append(asyncio.get_running_loop().time())
        error = self._errors.pop(0) if self._errors else None
        if not self._errors:
            self.stop.set()
        if error is not None:
            raise error


async def _run(
    rounds: _Rounds, *, every: float = _OFTEN, wake: asyncio.Event | None = None, after_fault: float = 0.0
) -> None:
    async with asyncio.timeout(60):
        await run_periodically(
            rounds,
            rounds.stop,
            every=every,
            logger=_LOGGER,
            outage="it waits",
            fault="it failed",
            wake=wake,
            after_fault=after_fault,
        )


def _logged(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return the log lines of the loop under test, because leftovers of other tests may log at any time."""
    return [one for one in caplog.records if one.name == _LOGGER.name]


async def test_an_outage_is_logged_once_until_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    rounds = _Rounds([_away(), _away(), None, _away(), None])
    await _run(rounds)
    assert len(rounds.begun) == 5
    assert [(one.levelname, one.getMessage().partition(":")[0]) for one in _logged(caplog)] == [
        ("WARNING", "it waits")
    ] * 2


async def test_fault_is_logged_with_its_origin_and_does_not_end_the_loop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rounds = _Rounds([ZeroDivisionError(), None])
    await _run(rounds)
    assert len(rounds.begun) == 2
    (record,) = _logged(caplog)
    assert (record.levelname, record.getMessage()) == ("ERROR", "it failed")
    assert record.exc_info is not None and record.exc_info[0] is ZeroDivisionError


async def test_pause_is_longer_after_a_fault() -> None:
    rounds = _Rounds([ZeroDivisionError(), None])
    await _run(rounds, after_fault=0.2)
    assert rounds.begun[1] - rounds.begun[0] >= 0.2


async def test_wake_ends_the_pause() -> None:
    rounds = _Rounds([None, None])
    wake = asyncio.Event()
    running = asyncio.create_task(_run(rounds, every=3600, wake=wake))
    while not rounds.begun:
        await asyncio.sleep(0)
    wake.set()
    while len(rounds.begun) < 2:
        await asyncio.sleep(0)
    # The loop was stopped in that iteration; a stop wakes the loop too.
    wake.set()
    await running


async def test_stopped_loop_does_not_begin() -> None:
    rounds = _Rounds()
    rounds.stop.set()
    await _run(rounds)
    assert rounds.begun == []


async def test_throttled_work_is_due_at_first_and_then_after_its_interval() -> None:
    seldom, often = Throttle(3600), Throttle(0)
    assert seldom.is_due() and seldom.is_due()
    seldom.done()
    often.done()
    assert (seldom.is_due(), often.is_due()) == (False, True)
