"""The jobs of all queue libraries."""

import os
import time
from pathlib import Path


def wait_for_release(name: str) -> None:
    """Run until the test creates a file of this name in its folder; at most a minute."""
    path = Path(os.environ["JOBS_FOLDER"]) / name
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)


def fail() -> None:
    """Raise an error."""
    raise ValueError("this job always fails")


def record(title: str) -> None:
    """Record an event of the service `jobs`."""
    import pharos_client

    pharos_client.init(service="jobs").log(title)
