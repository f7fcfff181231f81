"""GitLab.com and self-managed GitLab."""

import re

from git_hosts.gitlab import webhooks
from git_hosts.interface import GitHost

_SETUP = (
    "On GitLab, Settings > Webhooks > Add new webhook: the address is its URL, and the secret its {field}. "
    "The triggers are Push events and Merge request events."
)

GITLAB = GitHost(
    kind="gitlab",
    domains=("gitlab.com",),
    secret_kind="signing",
    has_plain_secrets=True,
    repository_id=re.compile("[0-9]{1,20}"),
    repository_id_format="a number",
    repository_id_path=("project", "id"),
    webhook_setup={
        "signing": _SETUP.format(field="Signing token"),
        "plain": _SETUP.format(field="Secret token"),
    },
    webhooks=webhooks,
)
