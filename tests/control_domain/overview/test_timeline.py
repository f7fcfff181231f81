"""The rows that the time line of an account reads."""

from types import SimpleNamespace
from typing import Any

import pytest

from analytics_queries.overview.timeline import Steps
from control_domain.database.engine import Sessions
from control_domain.overview.timeline import count_failed_runs
from tests.support.query_plans import explain_only_query


# Each database has its own query planner.
@pytest.mark.both_databases
async def test_failed_runs_are_found_by_the_heartbeats_of_the_account(sessions: Sessions) -> None:
    """Runs of other accounts, of which there may be any number, are not read."""
    caller: Any = SimpleNamespace(account=SimpleNamespace(id=1), person=SimpleNamespace(id=1), role="owner")

    async def count() -> None:
        async with sessions() as session:
            assert sum(await count_failed_runs(session, caller, Steps(0, 60, 60), None)) == 0

    plan = await explain_only_query(sessions, count)
    assert (
        "heartbeat_id=? AND first_ms>?" in plan or "(heartbeat_id = heartbeats.id) AND (first_ms" in plan
    ), plan
    assert "SCAN heartbeat_runs" not in plan
