"""A running `pharos up --demo`."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.platform_process import PlatformProcess
from tests.support.waits import wait_until


@contextmanager
def running_demo(data: Path, program: Sequence[str]) -> Iterator[PlatformProcess]:
    """Yield a started platform with the demo. `program` is the command to run in place of `pharos`."""
    platform = PlatformProcess(data, command=[*program, "up"])
    platform.start("--demo")
    try:
        yield platform
    finally:
        # With SIGTERM: the applications of the demo outlive a kill.
        platform.stop()


def wait_until_noted(platform: PlatformProcess, part: str, seconds: float) -> None:
    """Wait until the demo has recorded that this part of it is complete, and its records are consumed."""
    ledger = platform.data / "demo.json"
    wait_until(
        lambda: ledger.exists() and part in json.loads(ledger.read_text()),
        seconds,
        lambda: platform.log.read_text()[-3000:],
    )
    platform.wait_until_consumed()
