"""GitHub and GitHub Enterprise Server."""

import re
from contextlib import AbstractAsyncContextManager

from git_hosts.commit_statuses import CommitStatusClient
from git_hosts.github import webhooks
from git_hosts.interface import GitHost
from pipeline_contracts.settings import Settings


def _open_commit_statuses(settings: Settings) -> AbstractAsyncContextManager[CommitStatusClient] | None:
    if settings.github_token is None:
        return None
    # Imported here because only the worker that reports statuses needs an HTTP client.
    from git_hosts.github.commit_statuses import open_github_status_client

    return open_github_status_client(settings.github_token, settings.github_api_url)


GITHUB = GitHost(
    kind="github",
    domains=("github.com",),
    secret_kind="hmac",
    repository_id=re.compile("[0-9]{1,20}"),
    repository_id_format="a number",
    repository_id_path=("repository", "id"),
    webhook_setup={
        "hmac": "On GitHub, Settings > Webhooks > Add webhook: the address is its Payload URL, the Content type is "
        "application/json, and the secret its Secret. The events are Pushes and Pull requests."
    },
    webhooks=webhooks,
    open_commit_status_client=_open_commit_statuses,
)
