"""Fills the database of a team with 100,000 deployments, before the control plane starts."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from control_domain.accounts.roles import SCOPES
from control_domain.database.base import Base
from control_domain.database.engine import open_engine
from control_domain.database.migrations.upgrade import upgrade_database
from control_domain.tables.accounts import Account, ApiToken, Membership, Person
from control_domain.tables.deployments import Deployment, DeploymentLine
from control_domain.tables.projects import Environment, Project, ProjectRole
from control_domain.tables.repositories import Repository
from control_domain.tables.variables import VariableSet
from pipeline_contracts.credentials import CredentialKind, digest_credential, make_credential
from pipeline_contracts.identifiers import make_identifier
from pipeline_contracts.times import format_time, to_epoch_ms

DEPLOYMENTS = 100_000
PROJECTS = 60
_TYPES = ("development", "staging", "production")
# The last project has only one of 2,500 deployments.
_RARE = PROJECTS
_RARE_EVERY = 2_500
# Number of the newest projects that have a deployment in progress.
_ACTIVE = 20
_FINAL_STATUSES = ("succeeded",) * 17 + ("failed", "failed", "canceled")
_PEOPLE = 30
# Number of projects in which each person except the owner and the guest has a role.
_OWN_PROJECTS = 40
_LOGGED_EVERY = 2_000
_LOG_LINES = 1_200
_SHORT_LOG_EVERY = 100
_SHORT_LOG_LINES = 40
_VERSIONS = 5
_FIRST_AT = datetime(2025, 1, 6, 8, 0, tzinfo=UTC)
_INTERVAL = timedelta(minutes=5)
_CHUNK = 10_000

_Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class History:
    """Tokens of people who may read the deployments, and IDs of projects and deployments to read."""

    owner_token: str
    """The token of the account's owner, who can read everything."""
    member_token: str
    """The token of a person who has a role in 40 of 60 projects."""
    guest_token: str
    """The token of a person who has a role in one project. Its 40 deployments are spread over the whole
    history."""
    projects: Sequence[str]
    deployments: Sequence[int]
    """IDs of deployments from the whole history."""
    logged: Sequence[int]
    """IDs of deployments that have a log of 1,200 lines."""


async def fill_database(url: str) -> History:
    """Migrate the empty database at this URL and fill it."""
    engine = open_engine(url)
    try:
        await upgrade_database(engine)
        async with engine.begin() as connection:
            return await _fill(connection)
    finally:
        await engine.dispose()


async def _fill(connection: AsyncConnection) -> History:
    # The database was empty, so IDs count from 1 in the order of the rows.
    tokens = await _add_people(connection)
    projects = await _add_projects(connection)
    await _add(connection, Deployment, DEPLOYMENTS, _deployment)
    logs = [
        *((number, _LOG_LINES) for number in range(_LOGGED_EVERY, DEPLOYMENTS + 1, _LOGGED_EVERY)),
        *((number, _SHORT_LOG_LINES) for number in range(1, DEPLOYMENTS + 1, _SHORT_LOG_EVERY)),
    ]
    lines = [(deployment, line) for deployment, length in logs for line in range(length)]
    await _add(connection, DeploymentLine, len(lines), lambda number: _line(*lines[number - 1]))
    return History(
        *tokens,
        projects=projects,
        deployments=range(1, DEPLOYMENTS + 1, 997),
        logged=range(_LOGGED_EVERY, DEPLOYMENTS + 1, _LOGGED_EVERY),
    )


async def _add(
    connection: AsyncConnection, table: type[Base], count: int, row: Callable[[int], _Row]
) -> None:
    """Add the rows number 1 to `count` to the table. `row`: makes a row from its number."""
    for first in range(1, count + 1, _CHUNK):
        last = min(first + _CHUNK - 1, count)
        await connection.execute(insert(table), [row(number) for number in range(first, last + 1)])


async def _add_people(connection: AsyncConnection) -> tuple[str, str, str]:
    """Add an account with an owner, a guest and other members. Return the tokens of the owner, a member and the
    guest."""
    account = {
        "name": "Team",
        "slug": "team",
        "plan": "self-hosted",
        "ingest_rate": 1e9,
        "ingest_burst": 10**9,
    }
    account |= {"public_id": _identifier("acc", 1), "created_at": _FIRST_AT}
    await connection.execute(insert(Account), [account])
    await _add(connection, Person, _PEOPLE, _person)
    await _add(
        connection,
        Membership,
        _PEOPLE,
        lambda number: {
            "account_id": 1,
            "person_id": number,
            "role": "owner" if number == 1 else "member",
        },
    )
    # The first person is the owner. The last one is the guest.
    secret = {number: make_credential(CredentialKind.API_TOKEN) for number in range(1, _PEOPLE + 1)}
    await _add(connection, ApiToken, _PEOPLE, lambda number: _token(number, secret[number]))
    return secret[1], secret[2], secret[_PEOPLE]


async def _add_projects(connection: AsyncConnection) -> Sequence[str]:
    """Add projects with environments, a repository, variables and memberships. Return their public IDs."""
    public_ids = [_identifier("prj", number) for number in range(1, PROJECTS + 1)]
    await _add(connection, Project, PROJECTS, lambda number: _project(number, public_ids[number - 1]))
    environments = PROJECTS * len(_TYPES)
    await _add(connection, Environment, environments, _environment)
    await _add(connection, Repository, PROJECTS, _repository)
    await _add(connection, VariableSet, environments * _VERSIONS, _variables)
    roles = [(number, person) for person in range(2, _PEOPLE) for number in range(1, _OWN_PROJECTS + 1)]
    roles.append((_RARE, _PEOPLE))
    await connection.execute(
        insert(ProjectRole),
        [{"project_id": number, "person_id": person, "role": "deployer"} for number, person in roles],
    )
    return public_ids


def _identifier(prefix: str, number: int) -> str:
    return make_identifier(prefix, to_epoch_ms(_at(number)))


def _at(number: int) -> datetime:
    return _FIRST_AT + number * _INTERVAL


def _person(number: int) -> _Row:
    return {
        "public_id": _identifier("usr", number),
        "name": f"Person {number}",
        "email": f"person-{number}@example.org",
        "created_at": _at(number),
    }


def _token(number: int, secret: str) -> _Row:
    return {
        "account_id": 1,
        "person_id": number,
        "name": "bench",
        "digest": digest_credential(secret),
        "scopes": " ".join(SCOPES),
        "created_at": _at(number),
    }


def _project(number: int, public_id: str) -> _Row:
    return {
        "public_id": public_id,
        "account_id": 1,
        "name": f"Project {number}",
        "slug": f"project-{number}",
        "created_at": _at(number),
    }


def _environment(number: int) -> _Row:
    project, position = divmod(number - 1, len(_TYPES))
    kind = _TYPES[position]
    return {
        "public_id": _identifier("env", number),
        "project_id": project + 1,
        "name": kind.capitalize(),
        "slug": kind,
        "type": kind,
        "position": position + 1,
        "created_at": _at(number),
    }


def _repository(number: int) -> _Row:
    return {
        "project_id": number,
        "kind": "git",
        "url": f"https://git.example.org/team/project-{number}.git",
        "branch": "main",
        "created_at": _at(number),
    }


def _variables(number: int) -> _Row:
    environment, version = divmod(number - 1, _VERSIONS)
    # This is no real ciphertext. It is never decrypted here.
    return {
        "environment_id": environment + 1,
        "version": version + 1,
        "count": 20,
        "key_id": "bench",
        "sealed": secrets.token_bytes(1_500),
        "set_by_id": 1,
        "created_at": _at(number),
    }


def _deployment(number: int) -> _Row:
    project = _RARE if number % _RARE_EVERY == 0 else number % (PROJECTS - 1) + 1
    environment = (project - 1) * len(_TYPES) + number // PROJECTS % len(_TYPES) + 1
    is_active = DEPLOYMENTS - _ACTIVE <= number < DEPLOYMENTS
    at = _at(number)
    return {
        "account_id": 1,
        "project_id": project,
        "repository_id": project,
        "environment_id": environment,
        "status": "deploying" if is_active else _FINAL_STATUSES[number % len(_FINAL_STATUSES)],
        "trigger": "api",
        "revision": f"{number:040x}",
        "ref": None if number % 3 else "main",
        "asked_by_id": number % _PEOPLE + 1,
        "needs_approval": False,
        "created_at": at,
        "finished_at": None if is_active else at + timedelta(seconds=90),
    }


def _line(deployment: int, number: int) -> _Row:
    return {
        "deployment_id": deployment,
        "at": format_time(_at(deployment) + timedelta(milliseconds=50 * number)),
        "stream": "stderr" if number % 20 == 0 else "stdout",
        "text": f"step {number}: Collecting package-{number % 70} (from -r requirements.txt (line {number % 90}))",
    }
