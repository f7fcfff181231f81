"""Reports behind shared links: anonymous readers share few slots, limited by link and by address, and never take the
last slot."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from control_api.limits.fair_queue import FairQueue
from control_api.limits.kept_answers import KeptAnswers
from control_api.limits.report_queue import report_limits, run_in_queue
from control_api.limits.shared_report_queue import SharedReportQueue, run_shared_report
from pipeline_contracts.errors import TooManyRequests


class Control:
    """A control plane whose shared reports anonymous readers open. A report runs until its name is in `ended`."""

    def __init__(self, reports: int) -> None:
        limits = report_limits(reports)
        self.state = SimpleNamespace(
            report_queue=FairQueue(limits),
            shared_report_queue=SharedReportQueue(limits),
        )
        self.running: list[str] = []
        self.ended: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def open(self, *names: str) -> None:
        """Request reports with names like `link 1 from 192.0.2.1`, or `account 2` for a report of a person."""
        for name in names:
            self.tasks[name] = asyncio.create_task(self._ask(name), name=name)
            for _ in range(10):
                await asyncio.sleep(0)

    async def _ask(self, name: str) -> None:
        async def make() -> None:
            self.running.append(name)
            await self.ended.setdefault(name, asyncio.Event()).wait()
            self.running.remove(name)

        whose, _, address = name.partition(" from ")
        kind, number = whose.split()
        if kind == "account":
            await run_in_queue(self.state.report_queue, int(number), make)
            return

        async def receive() -> Any:
            await asyncio.Event().wait()

        request: Any = SimpleNamespace(app=self, receive=receive)
        await run_shared_report(request, address, int(number), make, is_kept=False)

    async def end(self, name: str) -> None:
        self.ended[name].set()
        await self.tasks[name]
        for _ in range(10):
            await asyncio.sleep(0)

    async def close(self) -> None:
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        assert (self.state.report_queue.running, self.state.report_queue.waiting) == (0, 0)
        assert self.state.shared_report_queue.by_address.running == 0
        assert self.state.shared_report_queue.by_link.running == 0


async def test_concurrent_readers_of_a_report_share_one_query() -> None:
    now, made = [0.0], []
    kept = KeptAnswers(lambda: now[0])

    async def make() -> int:
        made.append(len(made))
        await asyncio.sleep(0)
        if len(made) == 1:
            raise TooManyRequests("full")
        return len(made)

    found = await asyncio.gather(*(kept.find_or_make("a", make) for _ in range(100)), return_exceptions=True)
    # The failure of the first query affects only its own reader. All others get the result of the second query.
    assert isinstance(found[0], TooManyRequests) and found[1:] == [2] * 99
    assert await kept.find_or_make("b", make) == 3
    now[0] = 29.0
    assert (await kept.find_or_make("a", make), len(made)) == (2, 3)
    now[0] = 31.0
    # A reader that disconnects does not cancel the query for the others.
    leaving = asyncio.create_task(kept.find_or_make("a", make))
    waiting = asyncio.create_task(kept.find_or_make("a", make))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await waiting == 5
    for number in range(100):
        await kept.find_or_make(number, make)
    assert len(kept._answers) == 32 and "b" not in kept._making


@pytest.mark.parametrize(("reports", "of_links"), [(2, 1), (3, 1), (6, 2)])
async def test_shared_links_leave_slots_to_people(reports: int, of_links: int) -> None:
    control = Control(reports)
    await control.open(*(f"link {n} from 192.0.2.{i}" for n in (1, 2, 3) for i in range(1, 4)))
    assert len(control.running) == of_links
    # People of two accounts do not wait: an account may use half of the slots.
    people = [f"account {n}" for n in range(1, reports - of_links + 1)]
    await control.open(*people)
    assert control.running[of_links:] == people
    await control.close()


async def test_slots_rotate_between_links_and_between_addresses() -> None:
    control = Control(3)
    first = "link 1 from 192.0.2.1"
    # One reader with many links, and many readers with one link.
    await control.open(first, *(f"link {n} from 192.0.2.1" for n in (2, 3, 4)))
    await control.open(*(f"link 1 from 198.51.100.{i}" for i in range(1, 6)), "link 9 from 203.0.113.1")
    order = []
    for _ in range(4):
        (name,) = control.running
        order.append(name)
        await control.end(name)
    # Only one report of the first reader waits for its link, not three.
    assert order == [first, "link 2 from 192.0.2.1", "link 1 from 198.51.100.1", "link 9 from 203.0.113.1"]
    await control.close()


async def test_too_many_reports_of_an_address_or_a_link_are_refused() -> None:
    control = Control(3)
    await control.open(*(f"link 1 from 2001:db8::{i}" for i in range(1, 21)))
    await control.open(*(f"link 2 from 198.51.100.{i}" for i in range(1, 21)))
    refused = {name: task.exception() for name, task in control.tasks.items() if task.done()}
    assert all(isinstance(error, TooManyRequests) for error in refused.values())
    # Two reports of an IPv6 network are in the queue, and 16 wait. Of a link, 16 reports wait.
    assert sorted(refused) == [
        "link 1 from 2001:db8::19",
        "link 1 from 2001:db8::20",
        *(f"link 2 from 198.51.100.{i}" for i in range(17, 21)),
    ]
    await control.close()
