"""Bitbucket Cloud."""

import re

from git_hosts.bitbucket import webhooks
from git_hosts.interface import GitHost

BITBUCKET = GitHost(
    kind="bitbucket",
    domains=("bitbucket.org",),
    secret_kind="hmac",
    repository_id=re.compile(r"\{[0-9A-Fa-f-]{36}\}"),
    repository_id_format="a UUID in braces",
    repository_id_path=("repository", "uuid"),
    webhook_setup={
        "hmac": "On Bitbucket, Repository settings > Webhooks > Add webhook: the address is its URL, and the secret "
        "its Secret. The triggers are Push, and Pull request created, updated, merged and declined."
    },
    webhooks=webhooks,
)
