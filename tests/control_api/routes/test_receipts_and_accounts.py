"""The control plane on the port of the edge, over real HTTP."""

import json
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from sqlalchemy import select, update

from control_api.app import build_control_app
from control_domain.accounts.operations import create_api_token, create_person
from control_domain.database.engine import Sessions
from control_domain.projects.operations import create_ingest_key
from control_domain.tables.accounts import ApiToken
from control_domain.tables.projects import IngestKey
from ingest_edge.admission import Admission
from ingest_edge.app import build_edge, edge_runner
from ingest_edge.body_budget import BodyBudgets
from ingest_edge.health import Readiness
from ingest_edge.intake import Intake
from ingest_edge.limits import Limits
from ingest_edge.metrics import EdgeMetrics
from pipeline_contracts.credentials import CredentialKind, make_credential
from pipeline_contracts.identifiers import receipt_name, seal_receipt
from pipeline_contracts.settings import Settings
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from storage_backends.event_log.sqlite import open_sqlite_log
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from storage_backends.rate_counter.in_process import InProcessRateCounter
from tests.support.accounts import make_acme
from tests.support.serve_control import VARIABLE_KEYS
from wiring.embedded.asgi_bridge import asgi_handler

SEAL = b"the key that seals receipts of this test"
NOW = datetime(2026, 11, 20, tzinfo=UTC)


@dataclass
class Control:
    url: str
    http: aiohttp.ClientSession
    sessions: Sessions
    store: ChdbColumnStore
    token: str
    narrow_token: str
    key: str
    environment: str

    async def get(self, path: str, credential: str | None) -> tuple[int, Mapping[str, str], Any]:
        headers = {} if credential is None else {"Authorization": f"Bearer {credential}"}
        async with self.http.get(self.url + path, headers=headers) as response:
            return response.status, response.headers, await response.json(content_type=None)

    def receipt(self, batch: str) -> str:
        return seal_receipt(receipt_name(self.environment, batch), self.environment, SEAL)


@pytest.fixture
async def control(
    tmp_path: Path, column_store: ChdbColumnStore, sessions: Sessions
) -> AsyncIterator[Control]:
    async with sessions() as session, session.begin():
        account, _, environment = await make_acme(session, NOW)
        person = await create_person(session, account, "Ada", "ada@example.com", "owner", NOW)
        token = await create_api_token(session, account, person, "all", ["account:read", "deploy:read"], NOW)
        narrow = await create_api_token(session, account, person, "narrow", ["analytics:read"], NOW)
        key = await create_ingest_key(session, environment, NOW)
    log = await open_sqlite_log(tmp_path / "log.sqlite", 10**7)
    settings = Settings()
    metrics = EdgeMetrics()
    intake = Intake(
        InProcessKeyDirectory(),
        log,
        Admission(InProcessRateCounter(), slice_seconds=0),
        Limits.from_settings(settings),
        BodyBudgets.from_limits(Limits.from_settings(settings)),
        metrics,
    )
    app = build_control_app(sessions, column_store, SEAL, VARIABLE_KEYS)
    edge = build_edge(intake, Readiness({}), receipt_key=SEAL, otherwise=asgi_handler(app))
    runner = edge_runner(edge)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with aiohttp.ClientSession() as http:
        yield Control(url, http, sessions, column_store, token, narrow, key, environment.public_id)
    await runner.cleanup()
    await log.close()


async def test_account_and_me_describe_the_owner_of_the_token(control: Control) -> None:
    status, headers, answer = await control.get("/api/v1/account", control.token)
    account = answer["data"]
    assert (status, account) == (200, {"id": account["id"], "name": "Acme", "slug": "acme"})
    assert account["id"].startswith("acc_")
    assert headers["X-Request-Id"]
    _, _, answer = await control.get("/api/v1/me", control.token)
    assert answer["data"] == {
        "person": {"id": answer["data"]["person"]["id"], "name": "Ada", "email": "ada@example.com"},
        "organization": {
            "id": account["id"],
            "name": "Acme",
            "slug": "acme",
            "plan": {"name": "self-hosted", "limits": {"ingest_events_per_second": 10.0, "ingest_burst": 20}},
        },
    }


@pytest.mark.parametrize("path", ["/api/v1/account", "/api/v1/me", "/api/v1/ingest/receipts/rcp_x"])
async def test_missing_or_invalid_credential_is_401(control: Control, path: str) -> None:
    wrong_kind = control.key if "receipts" not in path else control.token
    unknown = make_credential(
        CredentialKind.API_TOKEN if "receipts" not in path else CredentialKind.INGEST_KEY
    )
    for credential in (None, "", "nonsense", wrong_kind, unknown, unknown[:-1] + "!"):
        status, headers, answer = await control.get(path, credential)
        assert (status, headers["WWW-Authenticate"]) == (401, "Bearer"), credential
        assert headers["Content-Type"] == "application/problem+json"
        assert answer["type"] == "/problems/invalid-credential"


@pytest.mark.parametrize(
    ("path", "scope"), [("/api/v1/account", "account:read"), ("/api/v1/me", "deploy:read")]
)
async def test_token_without_the_scope_is_403_with_its_name(control: Control, path: str, scope: str) -> None:
    status, _, answer = await control.get(path, control.narrow_token)
    assert (status, answer["type"]) == (403, "/problems/missing-scope")
    assert scope in answer["detail"]


@pytest.mark.parametrize(
    "ended",
    [{"revoked_at": NOW}, {"expires_at": datetime.now(UTC) - timedelta(seconds=1)}],
    ids=["revoked", "expired"],
)
async def test_expired_or_revoked_credential_is_401(control: Control, ended: dict[str, datetime]) -> None:
    async with control.sessions() as session, session.begin():
        await session.execute(update(ApiToken).values(**ended))
        await session.execute(update(IngestKey).values(**ended))
    assert (await control.get("/api/v1/account", control.token))[0] == 401
    assert (await control.get(f"/api/v1/ingest/receipts/{control.receipt('b')}", control.key))[0] == 401


@pytest.mark.both_databases
async def test_valid_token_works_and_its_use_is_recorded(control: Control) -> None:
    async with control.sessions() as session, session.begin():
        await session.execute(update(ApiToken).values(expires_at=datetime.now(UTC) + timedelta(hours=1)))
    assert (await control.get("/api/v1/account", control.token))[0] == 200
    async with control.sessions() as session:
        used = (
            (await session.execute(select(ApiToken.name).where(ApiToken.last_used_at.is_not(None))))
            .scalars()
            .all()
        )
    assert used == ["all"]


async def test_genuine_receipt_without_report_is_queued(control: Control) -> None:
    receipt = control.receipt("on its way")
    status, _, answer = await control.get(f"/api/v1/ingest/receipts/{receipt}", control.key)
    assert status == 200
    assert answer["data"] == {
        "id": receipt,
        "batch_id": None,
        "status": "queued",
        "received": None,
        "stored": None,
        "duplicates": None,
        "clamped": None,
        "received_at": None,
        "stored_at": None,
        "errors": [],
    }


async def test_reports_on_a_receipt_are_added_up(control: Control) -> None:
    batch = uuid.uuid4().hex
    row = {
        "receipt_id": receipt_name(control.environment, batch),
        "environment_id": control.environment,
        "batch_id": batch,
        "received": 7,
        "clamped": 2,
        "received_at": "2026-11-20T21:31:54.123Z",
        "stored_at": "2026-11-20T21:31:55.5Z",
        "log": batch,
    }
    outcomes = ["failed", "stored", "duplicate", "duplicate"]
    rows = [{**row, "outcome": outcome, "log_offset": n} for n, outcome in enumerate(outcomes)]
    rows[0]["errors"] = ["could not be read"]
    lines = b"".join(json.dumps(r).encode() + b"\n" for r in rows)
    await control.store.insert("pharos.ingest_receipts", lines, len(rows), batch)
    _, _, answer = await control.get(f"/api/v1/ingest/receipts/{control.receipt(batch)}", control.key)
    assert answer["data"] == {
        "id": control.receipt(batch),
        "batch_id": batch,
        "status": "stored",
        "received": 7,
        "stored": 7,
        "duplicates": 14,
        "clamped": 2,
        "received_at": "2026-11-20T21:31:54.123Z",
        "stored_at": "2026-11-20T21:31:55.500Z",
        "errors": ["could not be read"],
    }


async def test_invented_or_foreign_receipt_is_404(control: Control) -> None:
    genuine = control.receipt("b")
    name = receipt_name("env_other", "b")
    others = seal_receipt(name, "env_other", SEAL)
    forged = seal_receipt(receipt_name(control.environment, "b"), control.environment, b"another key")
    flipped = genuine[:-1] + ("0" if genuine[-1] != "0" else "1")
    for receipt in (others, forged, flipped, genuine.upper(), genuine + "0", "rcp_", "x", "%00", "a" * 5000):
        status, _, answer = await control.get(f"/api/v1/ingest/receipts/{receipt}", control.key)
        assert (status, answer["type"]) == (404, "/problems/not-found"), receipt


async def test_unknown_paths_and_methods_are_problems(control: Control) -> None:
    status, headers, answer = await control.get("/api/v1/nothing", control.token)
    assert (status, answer["status"], headers["Content-Type"]) == (404, 404, "application/problem+json")
    async with control.http.delete(control.url + "/api/v1/account") as response:
        assert (response.status, (await response.json(content_type=None))["type"]) == (
            405,
            "/problems/method-not-allowed",
        )


async def test_request_id_of_the_caller_is_returned(control: Control) -> None:
    for path in ("/api/v1/account", "/api/v1/ingest", "/nothing"):
        async with control.http.get(control.url + path, headers={"X-Request-Id": "mine-1"}) as response:
            assert response.headers.getall("X-Request-Id") == ["mine-1"]
