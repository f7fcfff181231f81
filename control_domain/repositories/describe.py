"""Documents of repositories, as the public API returns them."""

from typing import Annotated, Any, Literal, TypedDict, cast

from msgspec import Meta

from control_domain.projects.describe import ProjectSummary, summarize_project
from control_domain.repositories.find import FoundRepository
from git_hosts.webhook_events import WebhookSecret
from pipeline_contracts.times import format_time

RepositoryKind = Annotated[
    Literal["github", "gitlab", "bitbucket", "git"],
    Meta(description="The Git host. `git` is any other host, or a folder: such a repository has no webhook."),
]
SecretKindName = Annotated[
    Literal["hmac", "signing", "plain"],
    Meta(
        description="How deliveries are verified. `hmac`: GitHub and Bitbucket sign it. `signing`: "
        "GitLab signs it with a signing token. `plain`: a GitLab without signing tokens sends the secret itself."
    ),
]


class RepositoryDocument(TypedDict):
    """A Git repository that a project is deployed from."""

    id: int
    project: ProjectSummary
    kind: RepositoryKind
    url: Annotated[str, Meta(description="The URL with which the repository was connected.")]
    branch: Annotated[
        str,
        Meta(
            description="The branch that is deployed if neither the deployment nor its environment names another."
        ),
    ]
    host_id: Annotated[
        str | None,
        Meta(
            description="The repository's ID at its host, which renames and transfers keep. Null "
            "until the next delivery sets it."
        ),
    ]
    push_deploys: Annotated[bool, Meta(description="Whether deliveries of its webhook are processed.")]
    forks: Annotated[
        bool,
        Meta(description="Whether pull requests from forks get previews, although anybody can open one."),
    ]
    sample: Annotated[
        bool,
        Meta(
            description="True for the sample of a new installation, which the first connected one replaces."
        ),
    ]
    secret_kind: SecretKindName | None
    connected_at: str
    disconnected_at: str | None


class RepositoryWebhook(TypedDict):
    """The webhook to create at the Git host."""

    url: str
    secret_kind: SecretKindName
    secret: Annotated[str, Meta(description="The secret, which is not shown again.")]


class RepositoryWithWebhook(RepositoryDocument):
    """A repository, and the webhook to create at its host; null for the kind `git`."""

    webhook: RepositoryWebhook | None


def describe_repository(found: FoundRepository) -> RepositoryDocument:
    repository = found.repository
    return {
        "id": repository.id,
        "project": summarize_project(found.project),
        "kind": cast(Any, repository.kind),
        "url": repository.url,
        "branch": repository.branch,
        "host_id": repository.host_id,
        "push_deploys": repository.push_deploys,
        "forks": repository.allows_forks,
        "sample": repository.is_sample,
        "secret_kind": cast(Any, found.secret_kind),
        "connected_at": format_time(repository.created_at),
        "disconnected_at": None
        if repository.disconnected_at is None
        else format_time(repository.disconnected_at),
    }


def describe_with_webhook(
    found: FoundRepository, secret: WebhookSecret | None, url: str
) -> RepositoryWithWebhook:
    """`url`: the URL of its webhook."""
    webhook: RepositoryWebhook | None = None
    if secret is not None:
        webhook = {"url": url, "secret_kind": secret.kind, "secret": secret.value}
    return {**describe_repository(found), "webhook": webhook}
