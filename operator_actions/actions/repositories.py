"""Repositories as an operator handles them: connected to a project, listed, set, given another secret, disconnected."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import make_operator, record_audit_entry
from control_domain.deployments.transitions import add_log_line, transition_deployment
from control_domain.environments.settings import check_branch
from control_domain.projects.describe import summarize_project
from control_domain.projects.resolve import resolve_project
from control_domain.refusals import Refused
from control_domain.repositories import operations
from control_domain.repositories.urls import BadUrl, read_url
from control_domain.repositories.webhook_secrets import (
    has_webhook,
    make_secret,
    read_secret,
    set_secret,
)
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Project
from control_domain.tables.repositories import Repository
from control_domain.tables.webhooks import SealedWebhookSecret
from git_hosts.all_hosts import HOSTS
from git_hosts.gitlab.host import GITLAB
from git_hosts.signatures import decode_signing_key
from git_hosts.webhook_events import WebhookSecret
from operator_actions.actions.engines import Action, Engines, Params, read_id
from pipeline_contracts.deploy_states import ACTIVE_STATUSES, DeploymentStatus
from pipeline_contracts.times import format_time

_AUTO = "auto"
_HOST_ID = re.compile(r"[\x21-\x7e]{1,64}")


class _Chosen(NamedTuple):
    repository: Repository
    project: Project
    secret_kind: str | None


async def _list(engines: Engines, params: Params, now: datetime) -> Any:
    """Those that are connected, of all projects."""
    async with engines.sessions() as session:
        query = _connected().order_by(Repository.id)
        return [_describe(_Chosen(*row)) for row in await session.execute(query)]


async def _connect(engines: Engines, params: Params, now: datetime) -> Any:
    """`params`: url, kind (told from the host), branch (main), project_id (may be left out where there is one), and of
    the webhook's secret what `_read_secret` says. `webhook` is its secret, told this once; null for the kind `git`.

    The sample repository of a project gives way.
    """
    try:
        url, told_kind = read_url(str(params.get("url") or ""))
    except BadUrl as error:
        raise Refused(str(error)) from error
    kind = params.get("kind") or told_kind or "git"
    if kind not in operations.KINDS:
        raise Refused(f"The kind is one of {', '.join(operations.KINDS)}.")
    branch = check_branch(params.get("branch") or "main")
    secret = _read_secret(kind, params)
    try:
        async with engines.sessions() as session, session.begin():
            project = await resolve_project(session, params.get("project_id"))
            await _clear_sample(session, params, project, now)
            repository = await operations.connect_repository(session, project.id, kind, url, branch, now)
            chosen = _Chosen(repository, project, None if secret is None else secret.kind)
            if secret is not None:
                await set_secret(session, engines.sealing_keys(), repository, secret, now)
            details = {"project": project.public_id, "kind": kind, "url": url, "branch": branch}
            if secret is not None:
                details["webhook"] = secret.kind
            _record(session, params, chosen, "repository.connect", now, details)
            await session.flush()
            return {**_describe(chosen), "webhook": _tell_secret(secret)}
    except IntegrityError:
        raise Refused(await _told_connected(engines, params)) from None


async def _told_connected(engines: Engines, params: Params) -> str:
    async with engines.sessions() as session:
        project = await resolve_project(session, params.get("project_id"))
        before = await operations.find_connected_repository(session, project.id)
    if before is None:
        return f"The project {project.slug} was changed by somebody else meanwhile; run the command again."
    return (
        f"The project {project.slug} is deployed from {before.url} already; disconnect that first with "
        f"`pharos repository disconnect {before.id}`."
    )


async def _clear_sample(session: AsyncSession, params: Params, project: Project, now: datetime) -> None:
    """Disconnect what a first start has made. Raises `Refused` while a deployment of the project is active."""
    sample = await operations.find_connected_repository(session, project.id)
    if sample is None or not sample.is_sample:
        return
    await operations.lock_repository(session, sample.id)
    # Asked again: somebody else may have been quicker, and has then connected another one.
    sample = await operations.find_connected_repository(session, project.id)
    if sample is not None and sample.is_sample:
        await _disconnect_one(session, params, _Chosen(sample, project, None), now)


def _read_secret(kind: str, params: Params) -> WebhookSecret | None:
    """`params`: secret (the one that the host has made; without it a new one is made), plain_secret (whether it is sent
    as it is). None for a kind that has no webhook. Raises `Refused`."""
    given, plain = params.get("secret"), bool(params.get("plain_secret"))
    if given is not None:
        return read_secret(kind, str(given), plain=plain)
    if has_webhook(kind) or plain:
        return make_secret(kind, plain=plain)
    return None


def _is_plain(params: Params, chosen: _Chosen) -> bool:
    """Whether another secret is sent as it is. The present kind stays, because the host may have no signing tokens,
    unless `signing` or a signing token is given."""
    given = params.get("secret")
    if params.get("signing") or (given is not None and decode_signing_key(str(given)) is not None):
        return bool(params.get("plain_secret"))
    return bool(params.get("plain_secret")) or chosen.secret_kind == "plain"


def _tell_secret(secret: WebhookSecret | None) -> dict[str, str] | None:
    return None if secret is None else {"kind": secret.kind, "secret": secret.value}


async def _renew_secret(engines: Engines, params: Params, now: datetime) -> Any:
    """Check webhooks with another secret from now on. `params`: id, and what `_read_secret` says. `webhook` is the
    secret, told this once."""
    async with _changing(engines, params) as (session, chosen):
        repository = chosen.repository
        if params.get("signing") and repository.kind != GITLAB.kind:
            raise Refused(
                f"Only GitLab has signing tokens, and repository {repository.id} is at {repository.kind}: leave "
                "--signing out. Its secret was not changed."
            )
        plain = _is_plain(params, chosen)
        # For `git` it says that there is none.
        secret = _read_secret(repository.kind, {**params, "plain_secret": plain}) or make_secret(
            repository.kind
        )
        await set_secret(session, engines.sealing_keys(), repository, secret, now)
        _record(session, params, chosen, "repository.secret", now, {"kind": secret.kind})
        return {**_describe(chosen._replace(secret_kind=secret.kind)), "webhook": _tell_secret(secret)}


async def _set_branch(engines: Engines, params: Params, now: datetime) -> Any:
    """`params`: id, branch."""
    branch = check_branch(params.get("branch"))
    async with _changing(engines, params) as (session, chosen):
        details = {"from": chosen.repository.branch, "to": branch}
        if chosen.repository.branch != branch:
            chosen.repository.branch = branch
            _record(session, params, chosen, "repository.branch", now, details)
        await session.flush()
        return _describe(chosen)


async def _set(engines: Engines, params: Params, now: datetime) -> Any:
    """`params`: id, and push_deploys, forks (whether pull requests from forks get previews), host_id (the host's own
    ID; `auto`: the next delivery tells it), or several of them."""
    columns = {"push_deploys": "push_deploys", "forks": "allows_forks", "host_id": "host_id"}
    changes: dict[str, Any] = {
        name: bool(params[name]) for name in ("push_deploys", "forks") if params.get(name) is not None
    }
    if params.get("host_id") is not None:
        changes["host_id"] = _read_host_id(str(params["host_id"]))
    if not changes:
        raise Refused("Nothing to change. Give --push-deploys, --forks or --host-id.")
    async with _changing(engines, params) as (session, chosen):
        repository = chosen.repository
        if not has_webhook(repository.kind):
            raise Refused(f"A repository of the kind {repository.kind} has no webhook that could be set.")
        _check_host_id(repository.kind, changes.get("host_id"))
        before = _describe(chosen)
        for name, value in changes.items():
            setattr(repository, columns[name], value)
        details = {
            name: {"from": before[name], "to": value}
            for name, value in changes.items()
            if before[name] != value
        }
        if details:
            _record(session, params, chosen, "repository.set", now, details)
        await session.flush()
        return _describe(chosen)


def _read_host_id(given: str) -> str | None:
    if given == _AUTO:
        return None
    if _HOST_ID.fullmatch(given) is None:
        raise Refused(
            f"A repository's ID at its host has 1 to 64 printable ASCII characters without blanks, or is {_AUTO}. "
            "`pharos webhooks show` prints the repository ID of a delivery."
        )
    return given


def _check_host_id(kind: str, given: str | None) -> None:
    """Raise `Refused` for an ID that no repository of this host can have, such as the ID of a delivery: Pharos would
    ignore all pushes."""
    host = HOSTS[kind]
    if given is not None and host.repository_id.fullmatch(given) is None:
        raise Refused(
            f"{given} is not the ID of a repository at {kind}, which is {host.repository_id_format}. "
            "`pharos webhooks show` prints the repository ID of a delivery."
        )


async def _disconnect(engines: Engines, params: Params, now: datetime) -> Any:
    """Disconnect a repository, and cancel its waiting deployments. Refused while one is active. `params`: id."""
    async with _changing(engines, params) as (session, chosen):
        await _disconnect_one(session, params, chosen, now)
        return {**_describe(chosen._replace(secret_kind=None)), "disconnected": True}


async def _disconnect_one(session: AsyncSession, params: Params, chosen: _Chosen, now: datetime) -> None:
    repository, project, _ = chosen
    # Before the check for active deployments: an approval in progress has then ended, and its deployment is active.
    canceled = await _cancel_waiting(session, repository, now)
    active = select(Deployment.id, Deployment.status).where(
        Deployment.project_id == project.id, Deployment.status.in_(ACTIVE_STATUSES)
    )
    found = (await session.execute(active.order_by(Deployment.id).limit(1))).one_or_none()
    if found is not None:
        raise Refused(
            f"Deployment {found[0]} of the project {project.slug} is {found[1]}: wait until it is finished, or end "
            f"it with `pharos cancel {found[0]}`."
        )
    await operations.disconnect_repository(session, repository, now)
    details = {"url": repository.url, "canceled": canceled}
    _record(session, params, chosen, "repository.disconnect", now, details)
    await session.flush()


async def _cancel_waiting(session: AsyncSession, repository: Repository, now: datetime) -> int:
    """Cancel the deployments that wait for approval and would check out the repository; return how many."""
    query = (
        select(Deployment)
        .where(
            Deployment.repository_id == repository.id,
            Deployment.status == DeploymentStatus.AWAITING_APPROVAL,
            Deployment.promoted_from_id.is_(None),
        )
        .order_by(Deployment.id)
        .with_for_update()
    )
    waiting = (await session.execute(query)).scalars().all()
    for deployment in waiting:
        await transition_deployment(session, deployment, DeploymentStatus.CANCELED, now)
        add_log_line(session, deployment.id, "Canceled: the repository was disconnected.", now)
    return len(waiting)


@asynccontextmanager
async def _changing(engines: Engines, params: Params) -> AsyncIterator[tuple[AsyncSession, _Chosen]]:
    """The repository that `params["id"]` names, held for one transaction."""
    number = read_id(params, "id")
    async with engines.sessions() as session, session.begin():
        await operations.lock_repository(session, number)
        yield session, await _the_one(session, number)


def _connected() -> Any:
    return (
        select(Repository, Project, SealedWebhookSecret.kind)
        .join(Project, Project.id == Repository.project_id)
        .outerjoin(SealedWebhookSecret, SealedWebhookSecret.repository_id == Repository.id)
        .where(Repository.disconnected_at.is_(None))
    )


async def _the_one(session: AsyncSession, number: int) -> _Chosen:
    row = (await session.execute(_connected().where(Repository.id == number))).one_or_none()
    if row is None:
        raise Refused(f"No repository {number} is connected; `pharos repository list` shows those that are.")
    return _Chosen(*row)


def _record(
    session: AsyncSession,
    params: Params,
    chosen: _Chosen,
    action: str,
    now: datetime,
    details: Mapping[str, Any],
) -> None:
    subject = f"repository {chosen.repository.id}"
    record_audit_entry(
        session, make_operator(params), chosen.project.account_id, action, subject, now, details
    )


def _describe(chosen: _Chosen) -> dict[str, Any]:
    """`secret_kind` is null where there is no webhook, or none yet."""
    repository = chosen.repository
    return {
        "id": repository.id,
        "project": summarize_project(chosen.project),
        "kind": repository.kind,
        "url": repository.url,
        "branch": repository.branch,
        "host_id": repository.host_id,
        "push_deploys": repository.push_deploys,
        "forks": repository.allows_forks,
        "sample": repository.is_sample,
        "secret_kind": chosen.secret_kind,
        "connected_at": format_time(repository.created_at),
    }


ACTIONS: Mapping[str, Action] = {
    "repositories/list": _list,
    "repositories/connect": _connect,
    "repositories/new-secret": _renew_secret,
    "repositories/set-branch": _set_branch,
    "repositories/set": _set,
    "repositories/disconnect": _disconnect,
}
