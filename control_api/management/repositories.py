"""Repositories: `/v1/repositories`, and the repository of a project."""

from typing import Annotated

from fastapi import Request
from msgspec import UNSET, Meta, Struct, UnsetType

from control_api.http.public_address import public_address
from control_api.operations.access import At, at, at_account
from control_api.operations.bodies import json_body
from control_api.operations.pages import PageOf, PageQuery, read_pages
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.roles import Right
from control_domain.projects.find import find_project
from control_domain.removals.disconnect_repository import disconnect_and_cancel, disconnect_sample
from control_domain.repositories.change import RepositoryChanges, change_repository, renew_secret
from control_domain.repositories.connect import add_repository, read_new_repository
from control_domain.repositories.describe import (
    RepositoryDocument,
    RepositoryKind,
    RepositoryWithWebhook,
    SecretKindName,
    describe_repository,
    describe_with_webhook,
)
from control_domain.repositories.find import (
    FoundRepository,
    find_repository,
    lock_connected,
)
from control_domain.repositories.find import (
    list_repositories as find_repositories,
)
from control_domain.tables.accounts import Account
from control_domain.tables.projects import Project
from pipeline_contracts.errors import Conflict, DeployNotAllowed, NotFound
from pipeline_contracts.git_refs import LONGEST_REF

operations = OperationRouter("Projects")

_Account = Annotated[At[Account], at_account("deploy:read")]
_Project = Annotated[At[Project], at(find_project, "project", "projects:write", Right.MANAGE)]
_Read = Annotated[At[FoundRepository], at(find_repository, "repository", "deploy:read", Right.READ)]
_Manage = Annotated[At[FoundRepository], at(find_repository, "repository", "projects:write", Right.MANAGE)]

Branch = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=LONGEST_REF,
        description="The branch that is deployed if neither the deployment nor its environment names one.",
        examples=["main"],
    ),
]
Secret = Annotated[
    str,
    Meta(
        description="The secret of the webhook, if the Git host has created it: 16 to 255 printable "
        "ASCII characters, or "
        "a signing token of GitLab. By default, Pharos creates one."
    ),
]


class RepositoryFilter(PageQuery, kw_only=True):
    """Filters of repositories."""

    project: Annotated[
        str | None, Meta(description="Only the repository of this project: its string ID, or its number.")
    ] = None


class ConnectRepository(Struct, kw_only=True):
    """A repository to connect to a project."""

    url: Annotated[
        str,
        Meta(
            description="`https://host/path`, `ssh://git@host/path` or `git@host:path`, without a "
            "password or token: the machine that deploys needs a deploy key or a Git credential. An "
            "absolute path or a `file:` URL is a folder of that machine, which the operator must "
            "allow.",
            examples=["https://github.com/example/shop.git"],
        ),
    ]
    kind: Annotated[
        RepositoryKind | None,
        Meta(description="By default the kind of a well-known host in the URL, else `git`."),
    ] = None
    branch: Branch = "main"
    secret: Secret | None = None
    secret_kind: Annotated[
        SecretKindName | None,
        Meta(
            description="By default the strongest kind that the host supports. GitLab supports "
            "`signing` and `plain`."
        ),
    ] = None


class UpdateRepository(Struct, kw_only=True):
    """The settings of a repository that change."""

    branch: Branch | None = None
    push_deploys: Annotated[
        bool | None, Meta(description="Whether deliveries of its webhook are processed.")
    ] = None
    forks: Annotated[
        bool | None,
        Meta(
            description="Whether pull requests from forks get previews. Anybody can open one, and its code then runs "
            "with the variables of the preview."
        ),
    ] = None
    host_id: Annotated[
        str | None | UnsetType,
        Meta(
            description="The repository's ID at its host: only deliveries about it deploy. Null lets "
            "the next delivery set it."
        ),
    ] = UNSET


class NewWebhookSecret(Struct, kw_only=True):
    """A new secret of a webhook."""

    secret: Secret | None = None
    secret_kind: Annotated[
        SecretKindName | None,
        Meta(description="By default the present kind. GitLab supports `signing` and `plain`."),
    ] = None


def _settings(document: RepositoryDocument) -> dict[str, object]:
    return {
        "branch": document["branch"],
        "push_deploys": document["push_deploys"],
        "forks": document["forks"],
        "host_id": document["host_id"],
    }


def _webhook_url(request: Request, found: FoundRepository) -> str:
    return f"{public_address(request)}/api/repositories/{found.repository.id}/webhook"


@operations.get("/v1/repositories", problems=[NotFound, DeployNotAllowed])
async def list_repositories(
    at: _Account, filters: Annotated[RepositoryFilter, query(RepositoryFilter)]
) -> PageOf[RepositoryDocument]:
    """List repositories.

    The connected repositories of the projects in which the caller has a role, newest first.
    """
    project = None
    if filters.project is not None:
        project = await find_project(at.session, at.caller, filters.project, Right.READ)
    pages = read_pages(at, filters, "repositories")
    found, has_more = await find_repositories(at.session, at.caller, project, pages.page)
    return pages.answer(
        [describe_repository(each) for each in found], found[-1].repository.id if has_more else None
    )


@operations.post(
    "/v1/projects/{project}/repository",
    status=201,
    problems=[Conflict],
    secret=True,
)
async def connect_repository(
    at: _Project, body: Annotated[ConnectRepository, json_body(ConnectRepository)]
) -> RepositoryWithWebhook:
    """Connect a repository to a project.

    The response has the URL and the secret of the webhook to create at the Git host; the secret is not shown again. A
    project has one repository: 409 while another one is connected. The sample of a new installation is replaced,
    unless one of its deployments is active.
    """
    new = read_new_repository(
        at.request.app.state.repository_folders,
        body.url,
        body.kind,
        body.branch,
        body.secret,
        body.secret_kind,
    )
    await disconnect_sample(at.session, at.found, at.actor, at.now)
    found = await add_repository(at.session, at.sealing_keys, at.found, new, at.actor, at.now)
    return describe_with_webhook(found, new.secret, _webhook_url(at.request, found))


@operations.get("/v1/repositories/{repository}", etag=_settings)
async def read_repository(at: _Read) -> RepositoryDocument:
    """Read a repository.

    A disconnected repository can be read too, while its project exists.
    """
    return describe_repository(at.found)


@operations.patch("/v1/repositories/{repository}", etag=_settings, problems=[Conflict])
async def update_repository(
    at: _Manage, body: Annotated[UpdateRepository, json_body(UpdateRepository)]
) -> RepositoryDocument:
    """Change the settings of a repository.

    409 if it is disconnected, and for settings of the webhook if its kind has none.
    """
    found = await lock_connected(at.session, at.found)
    at.check_if_match(_settings(describe_repository(found)))
    changes = RepositoryChanges(body.branch, body.push_deploys, body.forks, body.host_id)
    await change_repository(at.session, found, changes, at.actor, at.now)
    return describe_repository(found)


@operations.delete("/v1/repositories/{repository}", problems=[Conflict], checks_if_match=True)
async def disconnect_repository(at: _Manage) -> RepositoryDocument:
    """Disconnect a repository from its project.

    Cancels the deployments from it that wait for approval, and drops the pushes that wait. Releases that were built
    from it stay and can be rolled back to. 409 while a deployment of the project is active.
    """
    found = await lock_connected(at.session, at.found)
    at.check_if_match(_settings(describe_repository(found)))
    await disconnect_and_cancel(at.session, found.project, found.repository, at.actor, at.now)
    return describe_repository(found._replace(secret_kind=None))


@operations.post("/v1/repositories/{repository}/webhook-secret", problems=[Conflict], secret=True)
async def replace_webhook_secret(
    at: _Manage, body: Annotated[NewWebhookSecret, json_body(NewWebhookSecret, is_optional=True)]
) -> RepositoryWithWebhook:
    """Replace the secret of a webhook.

    Deliveries with the former secret are refused from then on. The new secret is not shown again. 409 if the
    repository is disconnected, or its kind has no webhook.
    """
    found = await lock_connected(at.session, at.found)
    changed, secret = await renew_secret(
        at.session, at.sealing_keys, found, body.secret, body.secret_kind, at.actor, at.now
    )
    return describe_with_webhook(changed, secret, _webhook_url(at.request, changed))
