"""A project and a configuration run of fifty steps of all kinds that has not been executed yet."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import create_person
from control_domain.accounts.roles import SCOPES
from control_domain.audit import Actor, list_newest_entries
from control_domain.configurations.project_state import read_project_state
from control_domain.configurations.resources import ProjectState
from control_domain.configurations.reviews import create_review, plan_project
from control_domain.configurations.runs import ConfigurationRunStatus, describe_run, list_steps
from control_domain.configurations.start_run import start_run
from control_domain.database.base import Base
from control_domain.database.engine import Sessions, open_engine, open_sessions
from control_domain.monitors.operations import create_monitor_key, live_monitor_keys
from control_domain.projects.operations import create_ingest_key, live_ingest_keys
from control_domain.sites.operations import live_sites
from control_domain.tables.accounts import ApiToken
from control_domain.tables.configuration import ConfigurationRun
from control_domain.tables.monitors import Heartbeat, Queue
from control_domain.tables.projects import Environment, Project
from control_workers.configuration_runs import (
    ConfigurationRunWorker,
    OnCheckpoint,
    no_checkpoint,
    running_configuration_worker,
)
from pipeline_contracts.credentials import CredentialKind, digest_credential, make_credential
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from storage_backends.key_directory.interface import KeyDirectory, KeyEntry
from tests.support.accounts import make_acme, migrated
from tests.support.serve_control import VARIABLE_KEYS

COUNT = 50
SOURCE = "203.0.113.7"
"""Source of the run in the audit log."""
BINDINGS = {
    "database": "postgresql://shop:pa'ss\"w\\ord@db.internal/shop",
    "key": "-----BEGIN KEY-----\nåäö€\n-----END KEY-----\n",
    "token": "tok_0123456789abcdef",
}
BEFORE = """\
version: 2
environments:
  production:
    type: production
    branch: main
    variables: {APP_ENV: production, DATABASE_URL: "${database}", STAYS: as it is}
    heartbeats:
      backup: {cron: "0 3 * * *"}
      import: {period: 15m}
      report: {period: 1d, grace: 30m}
      clean-up: {period: 1h}
      bills: {period: 1h, paused: true}
      gone-1: {period: 1h}
      gone-2: {period: 1h}
      gone-3: {period: 1h}
    queues: {gone-1: {}, gone-2: {}}
  staging:
    type: staging
    variables: {APP_ENV: staging, TOKEN: "${token}"}
    heartbeats: {gone-4: {period: 1h}, gone-5: {period: 1h}}
    queues: {gone-3: {}, gone-4: {}}
  qa: {type: staging, order: 1, wake_on_request: true}
  careful: {type: staging, approval: {variables: true}}
  old-1: {type: development, variables: {KEY: "${key}"}, heartbeats: {job: {period: 1h}}, queues: {default: {}}}
  old-2: {type: development, locked: true, heartbeats: {job: {period: 1h}}}
  old-3: {type: development, queues: {default: {}}}
sites:
  www:
    domains: ["https://shop.example"]
    goals: [{name: Purchase, event: purchase}, {name: Newsletter, path: /thanks}]
  blog: {domains: ["https://blog.example"]}
  docs: {domains: ["https://docs.example"], timezone: Europe/Oslo}
  app: {domains: ["https://app.example"]}
  old-1: {domains: ["https://one.example"], goals: [{name: Signup, path: /welcome}]}
  old-2: {domains: ["https://two.example"]}
  old-3: {domains: ["https://three.example"]}
"""
AFTER = """\
version: 2
project: {name: "The shop"}
environments:
  development: {type: development, branch: develop, variables: {DATABASE_URL: "${database}"}}
  preview-of-all:
    type: staging
    order: 1
    state: hibernated
    locked: true
    variables: {KEY: "${key}", LONGER: "token=${token}; key=${key}"}
    heartbeats: {job: {period: 30m}, other-job: {cron: "30 4 * * 1", timezone: Europe/Oslo}}
    queues: {default: {}, mails: {}}
  canary: {type: production, order: 4, replicas: 2, window: {days: [mon, tue], from: "09:00", to: "16:00"}}
  second: {type: production, order: 5, approval: {deploys: true, variables: true}, variables: {TOKEN: "${token}"}}
  production:
    name: Live
    type: production
    replicas: 3
    window: {days: [mon, tue, wed, thu], from: "09:00", to: "16:00", timezone: Europe/Oslo}
    approval: {deploys: true}
    variables: {APP_ENV: live, DATABASE_URL: {keep: true}, TOKEN: "${token}"}
    heartbeats:
      backup: {cron: "30 3 * * *", timezone: Europe/Oslo}
      import: {period: 10m, paused: true}
      report: {period: 1d, grace: 1h}
      clean-up: {cron: "0 * * * *"}
      bills: {period: 1h, paused: false, failures_before_down: 3}
      new-1: {period: 1h}
      new-2: {period: 90s}
      new-3: {period: 1h, paused: true}
      new-4: {cron: "0 0 1 * *"}
    queues: {default: {}, mails: {}}
  staging:
    type: staging
    state: hibernated
    wake_on_request: true
    variables: {TOKEN: "another ${token}"}
    heartbeats: {new-5: {period: 1h}, new-6: {period: 1h}}
    queues: {default: {}}
  qa: {type: staging, name: Quality, order: 0, locked: true}
  careful: {type: staging, variables: {TOKEN: "${token}"}}
sites:
  www:
    domains: ["https://shop.example", "https://*.shop.example"]
    goals: [{name: Purchase, event: bought}, {name: Signup, path: /welcome}]
  blog: {domains: ["https://news.example"]}
  docs: {domains: ["https://docs.example"], timezone: UTC}
  app: {domains: ["https://app.example", "http://localhost:8000"], goals: [{name: Start, path: /}]}
  new-1: {domains: ["https://four.example"]}
  new-2: {domains: ["https://five.example"], goals: [{name: Purchase, event: purchase}]}
  new-3: {domains: ["https://six.example"], timezone: Europe/Oslo}
  new-4: {domains: ["https://seven.example"]}
"""
DELETED = """\
delete:
  - environments.old-1
  - environments.old-2
  - environments.old-3
  - environments.production.heartbeats.gone-1
  - environments.production.heartbeats.gone-2
  - environments.production.heartbeats.gone-3
  - environments.staging.heartbeats.gone-4
  - environments.staging.heartbeats.gone-5
  - environments.production.queues.gone-1
  - environments.production.queues.gone-2
  - environments.staging.queues.gone-3
  - environments.staging.queues.gone-4
  - environments.staging.variables.APP_ENV
  - sites.www.goals.Newsletter
  - sites.old-1
  - sites.old-2
  - sites.old-3
"""
_IDENTIFIER = re.compile(r"\b(env|sit)_[0-9a-z]{26}\b")


@dataclass(frozen=True, slots=True)
class Fifty:
    """The prepared database. `api_token` has all scopes; `digests` are those of all keys and trackers before the
    run."""

    url: str
    project_id: int
    run_id: int
    api_token: str
    digests: frozenset[bytes]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Results of the run, independent of the number of attempts."""

    state: ProjectState
    audited: Sequence[tuple[str, str, str]]
    """Audit entries of the run: action, kind of the subject, details without random IDs."""
    rows: Mapping[str, int]
    """Number of rows by table."""
    steps: Sequence[tuple[str, str, str, str | None]]
    """Action, resource, status and error."""


async def prepare_fifty(url: str) -> Fifty:
    """Fill an empty database. Every environment and every monitor has a key."""
    now = datetime.now(UTC)
    async with migrated(url) as engine:
        sessions = open_sessions(engine)
        async with sessions() as session, session.begin():
            account, project, _ = await make_acme(session, now)
            person = await create_person(session, account, "Kim", "kim@acme.example", "owner", now)
            token = make_credential(CredentialKind.API_TOKEN)
            session.add(
                ApiToken(
                    account_id=account.id,
                    person_id=person.id,
                    name="test",
                    digest=digest_credential(token),
                    scopes=" ".join(SCOPES),
                    created_at=now,
                )
            )
        actor = Actor("198.51.100.1", person.id)
        await _apply(sessions, project, BEFORE, ("database", "token", "key"), actor)
        await execute_all_runs(sessions, InProcessKeyDirectory())
        async with sessions() as session, session.begin():
            await _add_keys(session, now)
        number = await _apply(sessions, project, AFTER + DELETED, tuple(BINDINGS), Actor(SOURCE, person.id))
        digests = frozenset(entry.digest for entry in await live_entries(sessions))
    return Fifty(url, project.id, number, token, digests)


async def _apply(sessions: Sessions, project: Project, text: str, bound: Sequence[str], actor: Actor) -> int:
    """Apply the document and return the run's ID."""
    now = datetime.now(UTC)
    async with sessions() as session, session.begin():
        plan = await plan_project(
            session, VARIABLE_KEYS, project, text, {name: BINDINGS[name] for name in bound}
        )
        review = await create_review(session, VARIABLE_KEYS, project, plan, actor, now)
        return (await start_run(session, VARIABLE_KEYS, project, review.id, actor, now)).id


async def _add_keys(session: AsyncSession, now: datetime) -> None:
    for environment in (await session.execute(select(Environment))).scalars().all():
        await create_ingest_key(session, environment, now)
    for heartbeat in (await session.execute(select(Heartbeat.id))).scalars().all():
        await create_monitor_key(session, now, heartbeat_id=heartbeat)
    for queue in (await session.execute(select(Queue.id))).scalars().all():
        await create_monitor_key(session, now, queue_id=queue)


async def execute_all_runs(
    sessions: Sessions, directory: KeyDirectory, *, on_checkpoint: OnCheckpoint = no_checkpoint
) -> None:
    """Execute all runs with one worker."""
    worker = ConfigurationRunWorker(sessions, directory, VARIABLE_KEYS, on_checkpoint=on_checkpoint)
    async with running_configuration_worker(worker, is_alone=True):
        await until_ended(sessions)


async def until_ended(sessions: Sessions, look: Callable[[], None] = lambda: None) -> None:
    """Wait until no run is in progress; call `look` meanwhile."""
    running = select(func.count()).where(ConfigurationRun.status == ConfigurationRunStatus.RUNNING)
    while True:
        async with sessions() as session:
            if not (await session.execute(running)).scalar_one():
                return
        look()
        await asyncio.sleep(0.05)


async def live_entries(sessions: Sessions) -> Sequence[KeyEntry]:
    """Return all entries that a key directory has to contain."""
    now = datetime.now(UTC)
    async with sessions() as session:
        return [
            *await live_ingest_keys(session, now),
            *await live_monitor_keys(session, now),
            *await live_sites(session),
        ]


@contextlib.asynccontextmanager
async def opened(url: str) -> AsyncIterator[Sessions]:
    """Open sessions on the database."""
    engine = open_engine(url)
    try:
        yield open_sessions(engine)
    finally:
        await engine.dispose()


async def plan_again(sessions: Sessions, fifty: Fifty) -> Sequence[Any]:
    """Return the actions of a new plan of the document."""
    async with sessions() as session:
        project = await session.get_one(Project, fifty.project_id)
        plan = await plan_project(session, VARIABLE_KEYS, project, AFTER + DELETED, BINDINGS)
    return plan.to_json()["actions"]  # type: ignore[no-any-return]


async def read_outcome(sessions: Sessions, fifty: Fifty) -> Outcome:
    """Read the results from the database."""
    async with sessions() as session:
        project = await session.get_one(Project, fifty.project_id)
        run = await session.get_one(ConfigurationRun, fifty.run_id)
        steps = await list_steps(session, run.id)
        result = describe_run(run, steps)
        entries = await list_newest_entries(session, 1000)
        return Outcome(
            await read_project_state(session, VARIABLE_KEYS, project),
            [
                (entry["action"], entry["subject"].partition(" ")[0], _without_ids(entry["details"]))
                for entry in reversed(entries)
                if entry["source"] == SOURCE
            ],
            {
                table.name: (await session.execute(select(func.count()).select_from(table))).scalar_one()
                for table in Base.metadata.sorted_tables
            },
            [(one["action"], one["resource"], one["status"], one["error"]) for one in result["operations"]],
        )


def _without_ids(details: Mapping[str, Any]) -> str:
    return _IDENTIFIER.sub(r"\1_…", repr(details))
