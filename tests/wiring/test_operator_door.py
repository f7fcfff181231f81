"""The requests of the operator's commands: their responses, also while the key directory is unavailable."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from control_domain.audit import list_newest_entries
from control_domain.database.engine import open_sessions
from control_domain.tables.accounts import Account
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.operator_requests import (
    CreateSignInLink,
    CreateToken,
    LimitAccount,
    OperatorCall,
    OperatorRequest,
    RotateKey,
)
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from storage_backends.key_directory.interface import KeyEntry
from tests.support.accounts import make_acme, migrated
from tests.support.added_objects import ObjectAdder
from wiring.operator_door import OperatorEngines, answer_operator_call

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
LIMIT = LimitAccount(account="acme", rate=3.0, burst=4)


class AbsentDirectory(InProcessKeyDirectory):
    """A key directory that stops responding."""

    is_away = False

    async def publish(self, entry: KeyEntry) -> None:
        if self.is_away:
            raise StorageUnavailable("Redis does not answer.")
        await super().publish(entry)


@pytest.fixture
async def engines(tmp_path: Path) -> AsyncIterator[OperatorEngines]:
    """Yield the engines of an installation with the account `acme` and an ingest key."""
    async with migrated(f"sqlite+aiosqlite:///{tmp_path / 'control.sqlite'}") as engine:
        sessions = open_sessions(engine)
        async with sessions() as session, session.begin():
            await make_acme(session, NOW)
        directory = AbsentDirectory()
        await ObjectAdder(sessions, directory).add_ingest_key()
        yield OperatorEngines(sessions, directory, None)


async def call(engines: OperatorEngines, request: OperatorRequest, operator: str = "ada") -> tuple[int, Any]:
    body = msgspec.json.encode(OperatorCall(operator=operator, request=request))
    status, answer = await answer_operator_call(engines, body, NOW)
    return status, json.loads(answer)


async def test_the_log_names_the_operator(engines: OperatorEngines) -> None:
    status, answer = await call(engines, LIMIT, "ada\n\x1b[31m" + "x" * 200)
    assert status == 200 and "warning" not in answer
    assert answer["data"]["limits"] == {"ingest_events_per_second": 3.0, "ingest_burst": 4}
    async with engines.sessions() as session:
        (entry,) = await list_newest_entries(session, 10)
    assert entry["source"] == ("operator ada[31m" + "x" * 200)[:100]


@pytest.mark.parametrize("is_configured", [True, False])
async def test_edges_that_cannot_be_informed_are_a_warning(
    engines: OperatorEngines, is_configured: bool
) -> None:
    """The limit is changed nevertheless."""
    assert isinstance(engines.directory, AbsentDirectory)
    engines.directory.is_away = True
    used = engines if is_configured else OperatorEngines(engines.sessions, None, None)
    status, answer = await call(used, LIMIT)
    assert (status, "within a minute" in answer["warning"]) == (200, True)
    async with engines.sessions() as session:
        assert (await session.get_one(Account, 1)).ingest_burst == 4


@pytest.mark.parametrize(
    ("request_", "status", "detail"),
    [
        (LimitAccount(account="nobody", rate=1.0, burst=1), 404, "There is no account nobody."),
        (
            CreateToken(account=None, person=None, scopes=None, name=None, lifetime_seconds=None),
            404,
            "The account acme has no owner.",
        ),
        (CreateSignInLink(email=None), 404, "There is no account yet, and so no owner."),
        (CreateSignInLink(email="eve@x.example"), 404, "Nobody has the address eve@x.example."),
        (RotateKey(), 409, "Set PHAROS_VARIABLES_KEY as well"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_refusals_are_problem_documents(
    engines: OperatorEngines, request_: OperatorRequest, status: int, detail: str
) -> None:
    answered, document = await call(engines, request_)
    assert (answered, document["status"]) == (status, status)
    assert document["detail"].startswith(detail)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"operator": "ada", "request": {"type": "other"}}'])
async def test_requests_of_another_version(engines: OperatorEngines, body: bytes) -> None:
    status, answer = await answer_operator_call(engines, body, NOW)
    assert (status, b"does not understand the request" in answer) == (422, True)
