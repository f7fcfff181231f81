"""Which background workers a control plane runs."""

import asyncio
from unittest.mock import AsyncMock

import pytest

from control_domain.database.engine import Sessions
from control_domain.notifications.signed_links import IncidentLinks
from control_workers.assemble import ControlWorkers
from pipeline_contracts.settings import Settings
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from tests.support.serve_control import VARIABLE_KEYS

_ALWAYS = {
    "daily rollups",
    "idempotency keys",
    "old sessions",
    "old workers",
    "retention",
    "configuration runs",
    "waiting pushes",
    "commit statuses",
    "alert scan",
    "forgotten incidents",
    "incidents",
    "notification deliveries",
    "notification history",
}


@pytest.mark.parametrize(("is_alone", "names"), [(True, _ALWAYS), (False, _ALWAYS | {"publish keys"})])
async def test_all_workers_run_and_end(sessions: Sessions, is_alone: bool, names: set[str]) -> None:
    before = asyncio.all_tasks()
    settings = Settings(github_token="token", github_api_url="http://127.0.0.1:9")
    links = IncidentLinks(b"receipt key", None)
    workers = ControlWorkers(settings, sessions, InProcessKeyDirectory(), AsyncMock(), VARIABLE_KEYS, links)
    async with workers.running(is_alone=is_alone):
        assert {task.get_name() for task in asyncio.all_tasks() - before} == names
    assert asyncio.all_tasks() == before
