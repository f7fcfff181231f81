"""The control plane over HTTP with two accounts of the same contents.

Each has people of every role with tokens of every set of scopes, two projects with three environments each, a
repository, and deployments with releases.
"""

import contextlib
import io
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from yarl import URL

from control_api.app import build_control_app
from control_api.http.session_cookie import make_cookie_suffix
from control_domain.accounts.operations import create_account, create_person
from control_domain.accounts.roles import SCOPES
from control_domain.database.engine import Sessions, open_engine, open_sessions
from control_domain.monitors.operations import HeartbeatSettings, create_heartbeat, create_queue
from control_domain.projects.find import DeployTarget
from control_domain.projects.operations import create_environment, create_ingest_key, create_project
from control_domain.repositories.operations import connect_repository
from control_domain.sites.operations import create_site
from control_domain.tables.accounts import Account, ApiToken, Person
from control_domain.tables.deployments import Deployment, DeploymentLine, Release
from control_domain.tables.monitors import Heartbeat, Queue
from control_domain.tables.projects import Environment, Project, ProjectRole
from control_domain.tables.repositories import Repository
from control_domain.tables.sites import Site
from pipeline_contracts.credentials import CredentialKind, digest_credential, make_credential
from pipeline_contracts.deploy_states import ACTIVE_STATUSES, DeploymentStatus
from pipeline_contracts.rate_limits import RateLimit
from pipeline_contracts.schedules import Schedule
from pipeline_contracts.times import format_time
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from tests.support.accounts import migrated
from tests.support.databases import copied_database, read_all_rows
from tests.support.reviews import Reviewed, make_reviewed
from tests.support.serve_control import VARIABLE_KEYS, serving_control

RECEIPT_KEY = b"a receipt key of the test suite, 32+"
SESSION_COOKIE = f"pharos_session_{make_cookie_suffix(RECEIPT_KEY)}"
ALL_SCOPES = frozenset(SCOPES)
_DOCUMENTED_SCOPES = ("account:read", "analytics:read", "deploy:read", "deploy:write")
SCOPE_SETS = [
    *(
        frozenset(chosen)
        for count in range(len(_DOCUMENTED_SCOPES) + 1)
        for chosen in itertools.combinations(_DOCUMENTED_SCOPES, count)
    ),
    ALL_SCOPES,
    *(ALL_SCOPES - {scope} for scope in SCOPES),
]
"""Every set of the four documented scopes, all scopes, and all scopes except one."""
PEOPLE: dict[str, tuple[str, str | None]] = {
    "owner": ("owner", None),
    "admin": ("admin", None),
    "maintainer": ("member", "maintainer"),
    "deployer": ("member", "deployer"),
    "viewer": ("member", "viewer"),
    "stranger": ("member", None),
}
"""Each person's role in the account and in its project `shop`. No member has a role in `blog`."""
TYPES = ("development", "staging", "production")
# Hundreds of concurrent calls wait in the client, as they would in a gateway.
_CONNECTIONS = 50


@dataclass(frozen=True, slots=True)
class Response:
    """A response as it was received."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def data(self) -> Any:
        """The `data` member of a successful response."""
        return self.json()["data"]

    @property
    def fields(self) -> list[str]:
        """The fields that a 422 response names."""
        return [error["field"] for error in self.json()["errors"]]

    @property
    def problem(self) -> tuple[int, str]:
        """Status and problem type of an error response."""
        assert self.headers["Content-Type"] == "application/problem+json", self.body
        document = self.json()
        assert document["status"] == self.status
        return self.status, document["type"].removeprefix("/problems/")


@dataclass(slots=True)
class Tenant:
    """One account with its contents."""

    account: Account
    people: dict[str, Person] = field(default_factory=dict)
    tokens: dict[tuple[str, frozenset[str]], str] = field(default_factory=dict)
    projects: dict[str, Project] = field(default_factory=dict)
    places: dict[str, DeployTarget] = field(default_factory=dict)
    """Keys are names such as `shop/production`."""
    deployments: dict[str, Deployment] = field(default_factory=dict)
    """The succeeded deployment of each environment of `shop`, by the environment's slug."""
    ingest_key: str = ""
    """The ingest key of `shop/production`."""
    site: Site | None = None
    heartbeat: Heartbeat | None = None
    """A heartbeat of `shop/production`, after `add_monitors`."""
    queue: Queue | None = None
    """A queue of `shop/production`, after `add_monitors`."""
    repository: Repository | None = None
    """The repository of `shop`."""
    notified: dict[str, int] = field(default_factory=dict)
    """The numbers of the objects that `add_notifications` (`notification_rows`) adds to `shop/production`, by kind."""
    reviewed: dict[str, Reviewed] = field(default_factory=dict)
    """The open review and the configuration run of each project, by slug."""

    def token(self, person: str = "owner", scopes: frozenset[str] = ALL_SCOPES) -> str:
        return self.tokens[person, scopes]

    def environment(self, name: str) -> Environment:
        return self.places[name].environment


@dataclass(slots=True)
class Platform:
    """The control plane, its HTTP client and its database."""

    app: Any
    url: str
    http: aiohttp.ClientSession
    engine: AsyncEngine
    sessions: Sessions
    directory: InProcessKeyDirectory
    acme: Tenant
    other: Tenant

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        headers: Mapping[str, str | None] | None = None,
    ) -> Response:
        """Call the API as acme's owner, or with `token`; return the response, which must not be a 5xx.

        A `body` that is a dictionary is sent as JSON, any other unchanged. `headers` override the default ones; a value
        of None leaves a header out.
        """
        given: dict[str, str | None] = {"Authorization": f"Bearer {token or self.acme.token()}"}
        if body is not None:
            given["Content-Type"] = "application/json"
        sent = {name: value for name, value in (given | dict(headers or {})).items() if value is not None}
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        if isinstance(data, bytes):
            # aiohttp warns about large bodies of bytes.
            data = io.BytesIO(data)
        address = URL(f"{self.url}/api{path}", encoded=True)
        async with self.http.request(
            method, address, data=data, headers=sent, allow_redirects=False
        ) as response:
            answer = Response(response.status, response.headers, await response.read())
        assert answer.status < 500, (method, path, answer)
        assert answer.headers["X-Request-Id"]
        return answer

    async def contents(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return every row of every table, without the time at which a token was last used."""
        return await read_all_rows(self.engine, frozenset({"last_used_at"}))

    async def settle(self) -> None:
        """End all active deployments, so that environments accept new ones."""
        async with self.sessions() as session, session.begin():
            await session.execute(
                update(Deployment).where(Deployment.status.in_(ACTIVE_STATUSES)).values(status="failed")
            )

    async def change(self, name: str, **values: Any) -> None:
        """Set columns of one of acme's environments."""
        async with self.sessions() as session, session.begin():
            await session.execute(
                update(Environment).where(Environment.id == self.acme.environment(name).id).values(**values)
            )


def environment_path(target: DeployTarget, operation: str) -> str:
    """Return the path of an operation: `/v1/environments/env_…/deploy`."""
    return f"/v1/environments/{target.environment.public_id}/{operation}"


async def make_tenant(session: AsyncSession, name: str, now: datetime) -> Tenant:
    """Create an account of this name with its contents."""
    slug = name.lower()
    account = await create_account(session, name, slug, RateLimit(10, 20), now)
    made = Tenant(account)
    for person, (role, _) in PEOPLE.items():
        made.people[person] = await create_person(
            session, account, f"{person} of {name}", f"{person}@{slug}.example", role, now
        )
        for scopes in SCOPE_SETS:
            made.tokens[person, scopes] = await add_token(session, made, made.people[person], scopes)
    for project_slug in ("shop", "blog"):
        project = await create_project(session, account, project_slug.title(), project_slug, now)
        made.projects[project_slug] = project
        for type_ in TYPES:
            environment = await create_environment(session, project, type_.title(), type_, type_, now)
            made.places[f"{project_slug}/{type_}"] = DeployTarget(environment, project)
    shop = made.projects["shop"]
    for person, (_, project_role) in PEOPLE.items():
        if project_role is not None:
            session.add(ProjectRole(project_id=shop.id, person_id=made.people[person].id, role=project_role))
    made.repository = await connect_repository(
        session, shop.id, "git", f"https://git.{slug}.example/shop.git", "main", now
    )
    for type_ in TYPES:
        made.deployments[type_] = await add_succeeded(session, made, f"shop/{type_}", now)
    made.ingest_key = await create_ingest_key(session, made.environment("shop/production"), now)
    made.site = await create_site(session, shop.id, "Shop", "Europe/Oslo", ["https://shop.example"], now)
    return made


async def add_monitors(platform: Platform) -> None:
    """Add an hourly heartbeat `nightly` and a queue `mail` to `shop/production` of both accounts."""
    now = datetime.now(UTC)
    async with platform.sessions() as session, session.begin():
        for tenant in (platform.acme, platform.other):
            production = tenant.environment("shop/production")
            settings = HeartbeatSettings("nightly", Schedule(3600))
            tenant.heartbeat = await create_heartbeat(session, production, settings, now)
            tenant.queue = await create_queue(session, production, "mail", now)


async def add_token(
    session: AsyncSession, tenant: Tenant, person: Person, scopes: Iterable[str], **values: Any
) -> str:
    """Add a token; `values` are columns of its row. Return its secret."""
    secret = make_credential(CredentialKind.API_TOKEN)
    row = {
        "account_id": tenant.account.id,
        "person_id": person.id,
        "name": "test",
        "digest": digest_credential(secret),
        "scopes": " ".join(sorted(scopes)),
        "created_at": datetime.now(UTC),
    }
    session.add(ApiToken(**{**row, **values}))
    return secret


async def add_deployment(
    session: AsyncSession, tenant: Tenant, name: str, now: datetime, **values: Any
) -> Deployment:
    """Add a deployment that the owner has requested; it has succeeded unless `values` (columns) say otherwise."""
    environment, project = tenant.places[name]
    repository = select(Repository.id).where(Repository.project_id == project.id)
    row = {
        "status": DeploymentStatus.SUCCEEDED.value,
        "trigger": "api",
        "revision": f"{environment.id:040x}",
        "asked_by_id": tenant.people["owner"].id,
        "needs_approval": False,
        "created_at": now,
        "finished_at": None,
    }
    deployment = Deployment(
        account_id=tenant.account.id,
        project_id=project.id,
        repository_id=(await session.execute(repository)).scalar_one(),
        environment_id=environment.id,
        **{**row, **values},
    )
    session.add(deployment)
    await session.flush()
    return deployment


async def add_succeeded(
    session: AsyncSession, tenant: Tenant, name: str, now: datetime, **values: Any
) -> Deployment:
    """Add a deployment that has succeeded, with two log lines and its release."""
    deployment = await add_deployment(session, tenant, name, now, **{"finished_at": now, **values})
    session.add_all(
        DeploymentLine(deployment_id=deployment.id, at=format_time(now), stream="system", text=text)
        for text in ("Queued: main.", "Live.")
    )
    session.add(
        Release(
            environment_id=tenant.environment(name).id,
            deployment_id=deployment.id,
            revision=deployment.revision,
            artefact=f"releases/{deployment.id}",
            created_at=now,
        )
    )
    await session.flush()
    return deployment


@dataclass(frozen=True, slots=True)
class Prepared:
    """A database with both accounts. Tests copy it, which takes a tenth of the time of making it."""

    url: str
    acme: Tenant
    other: Tenant


async def prepare(url: str) -> Prepared:
    """Migrate an empty database and create both accounts."""
    now = datetime.now(UTC)
    async with migrated(url) as engine, open_sessions(engine)() as session, session.begin():
        acme, other = [await make_tenant(session, name, now) for name in ("Acme", "Other")]
        for tenant in (acme, other):
            for slug, project in tenant.projects.items():
                tenant.reviewed[slug] = await make_reviewed(session, VARIABLE_KEYS, project, now)
        return Prepared(url, acme, other)


@contextlib.asynccontextmanager
async def open_platform(
    prepared: Prepared, folder: Path, column_store: Any = None
) -> AsyncIterator[Platform]:
    """Yield a platform on a copy of the database, which is removed at the end. A file is copied into `folder`."""
    async with (
        copied_database(prepared.url, folder) as url,
        _serve_platform(prepared, url, column_store) as platform,
    ):
        yield platform


@contextlib.asynccontextmanager
async def prepared_after(
    prepared: Prepared, folder: Path, change: Callable[[Platform], Awaitable[object]]
) -> AsyncIterator[Prepared]:
    """Yield a copy of the database after `change`, to be copied in turn."""
    async with copied_database(prepared.url, folder) as url:
        async with _serve_platform(prepared, url) as platform:
            await change(platform)
        yield replace(prepared, url=url)


@contextlib.asynccontextmanager
async def _serve_platform(prepared: Prepared, url: str, column_store: Any = None) -> AsyncIterator[Platform]:
    async with contextlib.AsyncExitStack() as stack:
        engine = open_engine(url)
        stack.push_async_callback(engine.dispose)
        sessions = open_sessions(engine)
        directory = InProcessKeyDirectory()
        app = build_control_app(sessions, column_store, RECEIPT_KEY, VARIABLE_KEYS, directory=directory)
        served = await stack.enter_async_context(serving_control(app))
        connector = aiohttp.TCPConnector(limit=_CONNECTIONS)
        http = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        yield Platform(app, served, http, engine, sessions, directory, prepared.acme, prepared.other)
