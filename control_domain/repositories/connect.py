"""Connects repositories to projects."""

from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.database.errors import BrokenReference
from control_domain.repositories.find import FoundRepository
from control_domain.repositories.local_folders import LocalFolders
from control_domain.repositories.operations import connect_repository, find_connected_repository
from control_domain.repositories.urls import BadUrl, read_url
from control_domain.repositories.webhook_secrets import choose_secret, set_secret
from control_domain.sealing import SealingKeys
from control_domain.tables.projects import Project
from git_hosts.webhook_events import SecretKind, WebhookSecret
from pipeline_contracts.errors import Conflict, FieldError, InvalidInput, Problem
from pipeline_contracts.git_refs import is_ref

BRANCH_RULE = "must be the name of a branch that Git allows, such as main"
_FOLDER_RULE = (
    "must be a URL of another machine: a folder can be connected only if the operator of this installation has listed "
    "it in PHAROS_REPOSITORY_FOLDERS"
)


@dataclass(frozen=True, slots=True)
class NewRepository:
    """A repository to connect, checked."""

    kind: str
    url: str
    branch: str
    secret: WebhookSecret | None = field(repr=False)
    """None if the repository has no webhook."""


def read_new_repository(
    folders: LocalFolders,
    url: str,
    kind: str | None,
    branch: str,
    secret: str | None,
    secret_kind: SecretKind | None,
) -> NewRepository:
    """Return the repository to connect. `kind` None means the kind of the URL's host, or `git`; `secret` None a new
    secret.

    Raises `InvalidInput` with all invalid fields.
    """
    errors: list[FieldError] = []
    found_kind = None
    try:
        url, found_kind = read_url(url)
        if not folders.allow(url):
            errors.append(FieldError("url", _FOLDER_RULE))
    except BadUrl as error:
        errors.append(FieldError("url", str(error)))
    if not is_ref(branch):
        errors.append(FieldError("branch", BRANCH_RULE))
    chosen = None
    if kind is None and errors and found_kind is None:
        # The kind is unknown, and so are the rules for its secrets.
        secret = secret_kind = None
    kind = kind or found_kind or "git"
    try:
        chosen = choose_secret(kind, secret, secret_kind)
    except InvalidInput as problem:
        errors += problem.errors
    if errors:
        raise InvalidInput(
            "Nothing was changed. Fix the fields listed below and send the request again.", errors=errors
        )
    return NewRepository(kind, url, branch, chosen)


async def add_repository(
    session: AsyncSession,
    keys: SealingKeys,
    project: Project,
    new: NewRepository,
    actor: Actor,
    now: datetime,
) -> FoundRepository:
    """Connect the repository, with the secret of its webhook. Raises `Conflict` if the project has one already."""
    try:
        # A savepoint, because on Postgres a failed statement aborts the transaction.
        async with session.begin_nested():
            repository = await connect_repository(session, project.id, new.kind, new.url, new.branch, now)
    except BrokenReference:
        # The project was removed.
        raise
    except IntegrityError:
        raise await _connected_already(session, project) from None
    details = {"project": project.public_id, "kind": new.kind, "url": new.url, "branch": new.branch}
    if new.secret is not None:
        await set_secret(session, keys, repository, new.secret, now)
        details["webhook"] = new.secret.kind
    subject = f"repository {repository.id}"
    record_audit_entry(session, actor, project.account_id, "repository.connect", subject, now, details)
    return FoundRepository(repository, project, None if new.secret is None else new.secret.kind)


async def _connected_already(session: AsyncSession, project: Project) -> Problem:
    present = await find_connected_repository(session, project.id)
    if present is None:
        return Conflict(f"The repository of the project {project.slug} was changed meanwhile: try again.")
    return Conflict(
        f"The project {project.slug} is deployed from {present.url} (repository {present.id}): "
        "disconnect that repository first."
    )
