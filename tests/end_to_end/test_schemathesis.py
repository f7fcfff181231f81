"""Every operation of the API reference, called with valid and invalid input by every kind of caller.

Schemathesis generates the requests from the served document, and checks each response against it: status, headers,
body, that invalid input is refused and valid input is accepted, that a credential is required, and that other methods
are refused. `schemathesis.toml` has the rules that a schema cannot express. `make test` runs the caller with the most
rights, with few examples; `test_each_operation_refuses_other_credentials_as_documented` has the other callers.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_api.management.all_operations import ROUTERS
from control_domain.database.engine import open_engine, open_sessions
from control_domain.monitors.operations import HeartbeatSettings, create_heartbeat, create_queue
from control_domain.projects.operations import create_environment, create_project
from control_domain.sites.operations import create_site
from control_domain.tables.accounts import ApiToken
from pipeline_contracts.schedules import Schedule
from tests.support import suites
from tests.support.deploy_platform import Tenant, add_token, make_tenant
from tests.support.platform_process import PlatformProcess, platform_process

_HERE = Path(__file__).parent
_CALLERS = (
    "a token of every scope",
    "a token of no scope",
    "an ingest key",
    "a heartbeat's key",
    "a queue's key",
    "nobody",
)
_SCHEMES = ("apiToken", "ingestKey", "monitorKey")
_AT_ONCE = 2
# One run takes five minutes of CPU. Two concurrent runs next to other tests took more than ten minutes.
_SECONDS = 1500
# One test waits for the first result, the next one for all others.
pytestmark = pytest.mark.timeout(3 * _SECONDS)
_APP_SECRET = "the secret of the application"
# Fewer would mean that some operations were not called.
_FEWEST = 1000
_FEWEST_OF_FEW = 100
_FEW_EXAMPLES = 3
# The placeholder in the configuration.
_MAX_EXAMPLES = "max-examples = 15"


@dataclass(frozen=True, slots=True)
class _Called:
    """A platform, and the started runs on it."""

    platform: PlatformProcess
    tenant: Tenant
    credentials: dict[str, str | None]
    runs: dict[str, "Future[_Run]"]
    is_short: bool
    """True: use few examples."""


@dataclass(frozen=True, slots=True)
class _Run:
    """The report of a run, as text and as a document."""

    output: str
    report: dict[str, Any]


@dataclass(slots=True)
class _Managed:
    """IDs of objects that the management API changes, and of objects that it may remove (`doomed`)."""

    heartbeats: list[int]
    queues: list[int]
    people: list[str]
    tokens: list[int]
    doomed_tokens: list[int]
    doomed_projects: list[str]
    doomed_environments: list[str]
    doomed_sites: list[int]
    doomed_heartbeats: list[int]
    doomed_queues: list[int]


@asynccontextmanager
async def _writing(platform: PlatformProcess) -> AsyncIterator[AsyncSession]:
    """Yield a session on the platform's database, in a transaction."""
    engine = open_engine(f"sqlite+aiosqlite:///{platform.data / 'control.sqlite'}")
    try:
        async with open_sessions(engine)() as session, session.begin():
            yield session
    finally:
        await engine.dispose()


async def _add_tenant(platform: PlatformProcess) -> tuple[Tenant, _Managed]:
    """Add an account with projects, environments, deployments that can be rolled back to and promoted, and monitors."""
    async with _writing(platform) as session:
        tenant = await make_tenant(session, "Acme", datetime.now(UTC))
        return tenant, await _add_managed(session, tenant, datetime.now(UTC))


async def _add_token_without_scopes(called: "_Called") -> str:
    async with _writing(called.platform) as session:
        return await add_token(session, called.tenant, called.tenant.people["owner"], [])


async def _add_managed(session: AsyncSession, tenant: Tenant, now: datetime) -> _Managed:
    production, staging = tenant.environment("shop/production"), tenant.environment("shop/staging")
    heartbeats = [
        (await create_heartbeat(session, environment, HeartbeatSettings(name, Schedule(3600)), now)).id
        for environment in (production, staging)
        for name in ("nightly", "hourly", "doomed")
    ]
    queues = [
        (await create_queue(session, environment, name, now)).id
        for environment in (production, staging)
        for name in ("mail", "doomed")
    ]
    doomed = [
        await create_project(session, tenant.account, f"Doomed {i}", f"doomed-{i}", now) for i in range(3)
    ]
    shop = tenant.projects["shop"]
    environments = [
        await create_environment(session, project, "Gone", "gone", "staging", now)
        for project in (*doomed[:2], tenant.projects["blog"])
    ]
    site = await create_site(session, shop.id, "Doomed", "UTC", ["https://doomed.example"], now)
    for _ in range(3):
        await add_token(session, tenant, tenant.people["viewer"], ["deploy:read"])
    await session.flush()
    tokens = list(await session.scalars(select(ApiToken.id).order_by(ApiToken.id.desc()).limit(3)))
    return _Managed(
        heartbeats=heartbeats,
        queues=queues,
        # Not the owner, who is the caller, and whose role must not change.
        people=[tenant.people[name].public_id for name in ("viewer", "deployer", "maintainer")],
        tokens=tokens,
        doomed_tokens=tokens[:1],
        doomed_projects=[doomed[2].public_id],
        doomed_environments=[environment.public_id for environment in environments],
        doomed_sites=[site.id],
        doomed_heartbeats=[heartbeats[2], heartbeats[5]],
        doomed_queues=[queues[1], queues[3]],
    )


def _configuration(platform: PlatformProcess, tenant: Tenant, managed: _Managed) -> str:
    """Return the configuration with dictionaries of existing IDs."""
    shop, blog = (
        [
            str(named)
            for target in tenant.places.values()
            if target.project is project
            for named in (target.environment.public_id, target.environment.id)
        ]
        for project in tenant.projects.values()
    )
    projects = list(tenant.projects.values())
    site = platform.credentials["site"]
    batch = platform.ingest({"batch_id": "schemathesis", "events": [{"type": "job"}]})
    assert tenant.site is not None and tenant.repository is not None
    dictionaries = {
        "projects": [str(named) for project in projects for named in (project.public_id, project.id)],
        "environments": shop,
        "sleepers": blog,
        "builds": [deployment.id for deployment in tenant.deployments.values()],
        "sites": [tenant.site.id],
        "trackers": [site["tracker_id"]],
        "origins": [site["origin"]],
        "receipts": [batch.json["data"]["id"]],
        "monitors": [platform.credentials["heartbeat"]["id"], platform.credentials["queue"]["id"]],
        "ping_keys": [*(_ping_key(platform, *command) for command in _PING_KEYS)],
        "environment_ping_keys": [_ping_key(platform, *_PING_KEYS[1])],
        "heartbeat_names": ["first-heartbeat", "new"],
        "repositories": [platform.credentials["repository"]["id"]],
        "own_repositories": [tenant.repository.id],
        **asdict(managed),
        "git_events": ["push", "ping", "pull_request", "installation"],
    }
    # A list of strings and numbers has the same syntax in JSON and TOML.
    lines = [f"{name} = {{ values = {json.dumps(values)} }}" for name, values in dictionaries.items()]
    # A request that a state or a rule of the domain forbids is 409 or 422, even if the schema allows it. An unmet
    # `If-Match` is 412.
    operations = [operation.id for router in ROUTERS for operation in router.operations]
    managed_operations = [
        "[[operations]]",
        f"include-operation-id = {json.dumps(operations)}",
        "checks.positive_data_acceptance.expected-statuses = "
        '["2xx", "3xx", 401, 403, 404, 409, 412, 422, 429, "5xx"]',
    ]
    return "\n".join(
        [
            (_HERE / "schemathesis.toml").read_text(),
            *managed_operations,
            "[dictionaries]",
            *lines,
            "",
        ]
    )


_PING_KEYS = (("heartbeat", "new-ping-key", "first-heartbeat"), ("ping-key", "create"))


def _ping_key(platform: PlatformProcess, *command: str) -> str:
    return str(json.loads(platform.run(*command, "--json").stdout)["key"])


def _hooks(platform: PlatformProcess) -> dict[str, str]:
    """Return the environment variables that load and configure `schemathesis_hooks.py`."""
    secrets = {
        "/repositories/{repository}/webhook": platform.credentials["repository"]["secret"],
        "/git-app/webhook": _APP_SECRET,
        "/github-app/webhook": _APP_SECRET,
    }
    return {
        "SCHEMATHESIS_HOOKS_FILE": str(_HERE / "schemathesis_hooks.py"),
        "SCHEMATHESIS_WEBHOOK_SECRETS": json.dumps(secrets),
    }


def _call(
    folder: Path, platform: PlatformProcess, configuration: str, caller: str, credential: str | None
) -> _Run:
    folder.mkdir()
    if caller != "an ingest key":
        # Thousands of requests, because other callers are stopped at authentication.
        unopened = ["[[operations]]", 'include-path-regex = "/otlp/"', "phases.coverage.enabled = false"]
        configuration = "\n".join([configuration, *unopened, ""])
    if caller != _CALLERS[0]:
        # Signed requests need no credential.
        signed = ["[[operations]]", 'include-tag = "Webhooks"', "phases.coverage.enabled = false"]
        configuration = "\n".join([configuration, *signed, ""])
    if credential is not None:
        # Use the same credential for all operations, whatever kind they require.
        schemes = [f"{name}.bearer = {json.dumps(credential)}" for name in _SCHEMES]
        configuration = "\n".join([configuration, "[auth.openapi]", *schemes, ""])
    (folder / "schemathesis.toml").write_text(configuration)
    report = folder / "report.json"
    done = subprocess.run(
        [
            *(str(Path(sys.executable).with_name("schemathesis")), "run"),
            f"http://127.0.0.1:{platform.port}/api/openapi.json",
            *("--checks", "all", "--report", "json", "--report-json-path", str(report)),
        ],
        cwd=folder,
        env={**os.environ, **_hooks(platform)},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
    )
    # Some of the printed requests are long.
    output = "\n".join(line[:300] for line in (done.stdout + done.stderr).splitlines())
    assert report.exists(), output
    return _Run(output, json.loads(report.read_text()))


def _chosen_callers(request: pytest.FixtureRequest) -> list[str]:
    """Return the callers whose tests this run has selected."""
    chosen = {
        item.callspec.params["caller"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path and hasattr(item, "callspec")
    }
    return [caller for caller in _CALLERS if caller in chosen]


@pytest.fixture(scope="module")
def called(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Called]:
    """Execute all runs on one platform, two at a time."""
    folder = tmp_path_factory.mktemp("schemathesis")
    settings = {
        "PHAROS_INGEST_RATE": "1000000",
        "PHAROS_INGEST_BURST": "1000000",
        "PHAROS_ACCOUNT_REQUEST_BURST": "1000000",
        "PHAROS_ADDRESS_REQUEST_BURST": "1000000",
        "PHAROS_GIT_APP_SECRET": _APP_SECRET,
    }
    callers = _chosen_callers(request)
    is_short = not suites.is_thorough(request.config)
    with platform_process(folder / ".pharos", env=settings) as platform:
        tenant, managed = asyncio.run(_add_tenant(platform))
        configuration = _configuration(platform, tenant, managed)
        if is_short:
            assert _MAX_EXAMPLES in configuration
            configuration = configuration.replace(_MAX_EXAMPLES, f"max-examples = {_FEW_EXAMPLES}")
            configuration += "\n[phases.coverage]\nenabled = false\n"
        given = platform.credentials
        credentials = dict(
            zip(
                _CALLERS,
                [
                    tenant.token(),
                    tenant.token(scopes=frozenset()),
                    given["ingest_key"],
                    given["heartbeat"]["key"],
                    given["queue"]["key"],
                    None,
                ],
                strict=True,
            )
        )
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            begun = {
                caller: pool.submit(
                    _call, folder / str(number), platform, configuration, caller, credentials[caller]
                )
                for number, caller in enumerate(callers)
            }
            yield _Called(platform, tenant, credentials, begun, is_short)


@pytest.mark.parametrize(
    "caller",
    [
        pytest.param(_CALLERS[0], marks=pytest.mark.longer_in_full),
        *(pytest.param(caller, marks=pytest.mark.full) for caller in _CALLERS[1:]),
    ],
)
def test_every_response_matches_the_reference(
    caller: str, called: _Called, capsys: pytest.CaptureFixture[str]
) -> None:
    run = called.runs[caller].result()
    cases, operations = run.report["test_cases"], run.report["operations"]
    with capsys.disabled():
        print(f"\n{caller}: {cases['generated']} requests, {cases['unique_failures']} failures", end=" ")
    assert not run.report["failures"] and not run.report["errors"], run.output
    assert run.report["complete"], run.output
    assert operations["tested"] == operations["total"]
    assert cases["generated"] >= (_FEWEST_OF_FEW if called.is_short else _FEWEST)


_ACCEPTS = {
    _CALLERS[0]: "apiToken",
    _CALLERS[2]: "ingestKey",
    _CALLERS[3]: "monitorKey",
    _CALLERS[4]: "monitorKey",
}


def test_each_operation_refuses_other_credentials_as_documented(called: _Called) -> None:
    """Call each operation as each caller, with an empty body."""
    wait(called.runs.values())
    # The runs may have revoked the credential that they used.
    new = asyncio.run(_add_token_without_scopes(called))
    credentials = {**called.credentials, _CALLERS[1]: new}
    document = called.platform.request("GET", "/api/openapi.json").json
    wrong = []
    for path, item in document["paths"].items():
        for method in item.keys() & {"get", "post", "put", "patch", "delete"}:
            operation = item[method]
            schemes = {name for one in operation["security"] for name in one}
            for caller, credential in credentials.items():
                headers = {} if credential is None else {"Authorization": f"Bearer {credential}"}
                answer = called.platform.request(
                    method.upper(),
                    ("" if "servers" in item else "/api") + re.sub(r"\{\w+\}", "1", path),
                    body=None if method == "get" else b"{}",
                    headers={**headers, "Content-Type": "application/json"},
                )
                case = (method, path, caller, answer.status)
                if str(answer.status) not in operation["responses"]:
                    wrong.append((*case, "is not in the reference"))
                if schemes and _ACCEPTS.get(caller) not in schemes:
                    lacks_scope = caller == _CALLERS[1] and "apiToken" in schemes
                    # An API token does not replace the session of a person.
                    lacks_session = caller in _CALLERS[:2] and schemes == {"session"}
                    expected = 403 if lacks_scope or lacks_session else 401
                    # OTLP responses have their own status, without the HTTP one.
                    if answer.status != expected or answer.json.get("status", expected) != expected:
                        wrong.append((*case, f"is not {expected}"))
    assert wrong == []


def test_every_event_that_the_schema_allows_can_be_stored(called: _Called) -> None:
    wait(called.runs.values())
    # Dead letters stay in the log.
    called.platform.wait_until_consumed(300)
