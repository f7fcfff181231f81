"""Creates the first account with its credentials: a person, a project, an environment, monitors, a site and keys."""

import json
import os
import secrets
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import (
    DEFAULT_LIMIT,
    create_account,
    create_api_token,
    create_person,
    find_caller,
    set_ingest_limit,
)
from control_domain.accounts.roles import SCOPES
from control_domain.audit import Actor, record_audit_entry
from control_domain.database.engine import Sessions
from control_domain.first_account.owner_email import PLACEHOLDER, read_owner_email, replace_placeholder
from control_domain.first_account.samples import ensure_first_monitors, ensure_first_site
from control_domain.projects.operations import create_environment, create_ingest_key, create_project
from control_domain.tables.accounts import Account, Membership, Person
from control_domain.tables.projects import Environment, Project
from pipeline_contracts.credentials import digest_credential
from pipeline_contracts.rate_limits import RateLimit
from pipeline_contracts.sentry_dsn import make_sentry_dsn
from pipeline_contracts.settings import PREFIX, BadSettings, Settings

# The largest integer of the column in Postgres.
_MAX_BURST = 2**31 - 1
_ACTOR = Actor("start of the installation")
_KEYS = ("account_id", "api_token", "project_id", "environment_id", "ingest_key")


async def ensure_first_account(
    sessions: Sessions, settings: Settings, path: Path, base_url: str
) -> dict[str, Any]:
    """Return the credentials in the file `path`; create the account and the missing credentials first.

    If a start ended between the commit and the write of the file, nobody has seen the secrets of the account, so new
    ones are made. An API token that was revoked, or that an older version made with fewer scopes, is replaced in the
    file: the command line needs all of them. A rate or burst in the settings replaces that of the account; the owner's
    address in the settings replaces a placeholder. Several processes may call this at once: they share one account,
    and each has its own keys. Raises `BadSettings` for a burst that does not fit into its column, and for an invalid
    e-mail address.
    """
    if settings.ingest_burst is not None and settings.ingest_burst > _MAX_BURST:
        raise BadSettings(f"{PREFIX}INGEST_BURST: at most {_MAX_BURST}")
    read_owner_email(settings)
    present = _read_credentials(path)
    try:
        made = await _ensure(sessions, settings, present)
    except IntegrityError:
        # Another process has created the account meanwhile; this time it is found.
        made = await _ensure(sessions, settings, present)
    credentials = {**present, **made}
    if "ingest_key" in credentials:
        # With each start, because the address may be another one.
        credentials["sentry_dsn"] = make_sentry_dsn(base_url, str(credentials["ingest_key"]))
    credentials = {"base_url": base_url, **{k: v for k, v in credentials.items() if k != "base_url"}}
    write_private(path, json.dumps(credentials, indent=2) + "\n")
    return credentials


async def _ensure(sessions: Sessions, settings: Settings, present: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the missing credentials, made in one transaction. Raises `IntegrityError` if another process was
    faster."""
    # Account scope: this looks for any account, to create the first one.
    now = datetime.now(UTC)
    async with sessions() as session, session.begin():
        account = (await session.execute(select(Account).order_by(Account.id).limit(1))).scalar_one_or_none()
        made: dict[str, Any] = {}
        environment: Environment | None
        email = read_owner_email(settings)
        if account is not None and email is not None:
            await replace_placeholder(session, account, email, _ACTOR, now)
        if account is None or not all(name in present for name in _KEYS):
            made, environment = await _create(session, account, settings, now)
        else:
            environment = await _first_environment(session, account)
            if not await _has_all_scopes(session, account, str(present["api_token"]), now):
                made["api_token"] = await _create_token(session, account, now)
            if settings.ingest_rate is not None or settings.ingest_burst is not None:
                limit = _ingest_limit(settings, RateLimit(account.ingest_rate, account.ingest_burst))
                await set_ingest_limit(session, account.public_id, limit)
        # None: all environments were removed. Keep the known credentials and create nothing.
        if environment is not None:
            made.update(await ensure_first_monitors(session, environment, present, now))
            made.update(await ensure_first_site(session, environment, present, now))
        return made


def _ingest_limit(settings: Settings, otherwise: RateLimit) -> RateLimit:
    return RateLimit(
        otherwise.rate if settings.ingest_rate is None else settings.ingest_rate,
        otherwise.burst if settings.ingest_burst is None else settings.ingest_burst,
    )


async def _create(
    session: AsyncSession, account: Account | None, settings: Settings, now: datetime
) -> tuple[dict[str, Any], Environment]:
    if account is None:
        account = await create_account(
            session, "My account", "my-account", _ingest_limit(settings, DEFAULT_LIMIT), now
        )
        email = read_owner_email(settings) or PLACEHOLDER
        await create_person(session, account, "Owner", email, "owner", now)
        environment = await _create_environment(session, account, now)
    else:
        environment = await _first_environment(session, account) or await _create_environment(
            session, account, now
        )
    project_id = select(Project.public_id).where(Project.id == environment.project_id)
    made = {
        "account_id": account.public_id,
        "api_token": await _create_token(session, account, now),
        "project_id": (await session.execute(project_id)).scalar_one(),
        "environment_id": environment.public_id,
        "ingest_key": await create_ingest_key(session, environment, now),
    }
    return made, environment


async def _create_token(session: AsyncSession, account: Account, now: datetime) -> str:
    """Return a new API token of the first owner, with all scopes."""
    owner = (
        await session.execute(
            select(Person)
            .join(Membership, Membership.person_id == Person.id)
            .where(Membership.account_id == account.id, Membership.role == "owner")
            .order_by(Person.id)
            .limit(1)
        )
    ).scalar_one()
    secret = await create_api_token(session, account, owner, "command line of this machine", SCOPES, now)
    record_audit_entry(
        session,
        _ACTOR,
        account.id,
        "token.create",
        f"person {owner.public_id}",
        now,
        {"scopes": list(SCOPES)},
    )
    return secret


async def _has_all_scopes(session: AsyncSession, account: Account, token: str, now: datetime) -> bool:
    """Return True if the token is a live one of the account with every scope."""
    caller = await find_caller(session, digest_credential(token), now)
    return caller is not None and caller.account.id == account.id and caller.scopes.issuperset(SCOPES)


async def _create_environment(session: AsyncSession, account: Account, now: datetime) -> Environment:
    """Create an environment in the first project of an account without environments."""
    first = select(Project).where(Project.account_id == account.id).order_by(Project.id).limit(1)
    project = (await session.execute(first)).scalar_one_or_none()
    if project is None:
        project = await create_project(session, account, "My project", "my-project", now)
    return await create_environment(session, project, "Production", "production", "production", now)


async def _first_environment(session: AsyncSession, account: Account) -> Environment | None:
    """Return the first environment of the first project that has one."""
    query = (
        select(Environment)
        .join(Project, Project.id == Environment.project_id)
        .where(Project.account_id == account.id)
        .order_by(Project.id, Environment.id)
        .limit(1)
    )
    return (await session.execute(query)).scalar_one_or_none()


async def name_first_environment(sessions: Sessions, account_id: str) -> tuple[str, bool] | None:
    """Return the path of the account's first environment, such as `my-project/production`, and True if it has several.

    None if it has none. `account_id` is the public ID.
    """
    # Account scope: the condition on the account's public ID.
    query = (
        select(Project.slug, Environment.slug)
        .join(Environment, Environment.project_id == Project.id)
        .join(Account, Account.id == Project.account_id)
        .where(Account.public_id == account_id)
        .order_by(Project.id, Environment.id)
        .limit(2)
    )
    async with sessions() as session:
        rows = (await session.execute(query)).all()
    return (f"{rows[0][0]}/{rows[0][1]}", len(rows) > 1) if rows else None


def _read_credentials(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def ensure_secret(path: Path) -> str:
    """Return the secret in the file `path`, created on the first call: 43 characters, 256 bits."""
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        secret = secrets.token_urlsafe(32)
        write_private(path, secret + "\n")
        return secret


def write_private(path: Path, text: str) -> None:
    """Replace the file atomically, never readable by anybody but its owner."""
    # A unique name, because another process may write the same file.
    descriptor, new = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".new", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise
