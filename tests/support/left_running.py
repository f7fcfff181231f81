"""A test that starts engines and a platform and then waits to be killed. `test_reaper` runs it; no suite does."""

import os
import sys
import time
from pathlib import Path

from tests.support.platform_process import platform_process
from tests.support.postgres_server import running_postgres
from tests.support.redis_server import running_redis


def test_wait_to_be_killed(tmp_path: Path) -> None:
    with (
        running_redis(tmp_path / "redis") as redis,
        running_postgres(tmp_path) as postgres,
        platform_process(tmp_path / "data") as platform,
    ):
        assert redis.process is not None and postgres.process is not None
        pids = [os.getpid(), redis.process.pid, postgres.process.pid, platform.pid]
        # pytest has captured standard output.
        Path(os.environ["LEFT_RUNNING"]).write_text(" ".join(map(str, pids)))
        time.sleep(600)
        sys.exit("not killed within 600 s")
