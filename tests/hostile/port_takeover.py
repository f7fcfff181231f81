"""Take the port of a crashed neighbour to receive the requests of its callers.

    python -m tests.hostile.port_takeover [CRASHES]

The attacker's application reads the neighbour's port from `/proc/net/tcp` and binds it as soon as it is free. The
neighbour's application is killed several times; after each crash, once the attacker has the port, twelve callers of the
neighbour send a request with a cookie, and every other one asks for a WebSocket. The program prints what the attacker
received, and the responses to the neighbour's callers. Needs root, as each environment has a user of its own.
"""

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.hostile.neighbour import Responses, print_table, send_request
from tests.support.driver_under_test import DriverUnderTest, driver_under_test
from tests.support.hostile_apps import ATTACKER, VICTIM
from tests.support.waits import poll_until

_NEIGHBOUR, _ATTACKER = 1, 2
_REQUESTS = 12
_LONGEST_SECONDS = 20.0


@dataclass(slots=True)
class Outcome:
    """The result of an attack."""

    crashes: int = 0
    stolen: Counter[str] = field(default_factory=Counter)
    """The number of ports that the attacker took (`port`), and of its connections by their content."""
    neighbours: Responses = field(default_factory=Responses)


def _stolen(under_test: DriverUnderTest) -> Counter[str]:
    home = under_test.folder / "homes" / under_test.tenancy(_ATTACKER).public_id / "run"
    return Counter((home / "stolen").read_text().split())


async def _ask_all(under_test: DriverUnderTest, answers: Responses) -> None:
    url, host = f"http://127.0.0.1:{under_test.port}/account", under_test.tenancy(_NEIGHBOUR).hosts[0]
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}
    keep_sending = (
        send_request(
            under_test.session,
            url,
            answers,
            "mine",
            Host=host,
            Cookie="session=secret",
            **(upgrade if number % 2 else {}),
        )
        for number in range(_REQUESTS)
    )
    await asyncio.gather(*keep_sending)


async def _becomes_true(condition: Callable[[], object]) -> bool:
    """Return True if the condition holds within the limit."""
    try:
        await poll_until(condition, _LONGEST_SECONDS)
    except TimeoutError:
        return False
    return True


async def _crash(under_test: DriverUnderTest, outcome: Outcome) -> bool:
    """Crash the neighbour's application once. Return False if it does not run because the attacker still has its
    port."""
    if not await _becomes_true(lambda: under_test.first_status(_NEIGHBOUR).state == "running"):
        return False
    before, taken = under_test.first_status(_NEIGHBOUR).pid, _stolen(under_test)["port"]
    assert before is not None
    # The attacker sees a port only while the application listens.
    if not await _becomes_true(lambda: _stolen(under_test)["seen"] > taken):
        return False
    os.kill(before, signal.SIGKILL)
    outcome.crashes += 1
    await _becomes_true(lambda: _stolen(under_test)["port"] > taken)
    await _ask_all(under_test, outcome.neighbours)
    return True


async def attack(crashes: int) -> Outcome:
    """Crash the neighbour's application the given number of times."""
    outcome = Outcome()
    async with driver_under_test() as under_test:
        attacker = under_test.write_run(2, ATTACKER, variables=under_test.victim_variables(_NEIGHBOUR))
        await under_test.start_and_switch(_ATTACKER, attacker)
        # The port is free during this time.
        neighbour = under_test.write_run(1, VICTIM, health="path: /", variables={"START_SECONDS": "0.3"})
        await under_test.start_and_switch(_NEIGHBOUR, neighbour)
        for _ in range(crashes):
            if not await _crash(under_test, outcome):
                break
        outcome.stolen = _stolen(under_test)
    return outcome


def main(crashes: int = 3) -> None:
    outcome = asyncio.run(attack(crashes))
    stolen = outcome.stolen
    print_table(
        ("attack", "the attacker", "the neighbour's callers"),
        [
            (
                f"{outcome.crashes} crashes, {outcome.crashes * _REQUESTS} requests with cookies",
                f"took {stolen['port']} ports, got {stolen['cookie']} cookies and {stolen['request']} other requests",
                outcome.neighbours,
            )
        ],
    )


if __name__ == "__main__":
    main(*(int(text) for text in sys.argv[1:]))
