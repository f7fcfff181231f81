"""Each Git host's module, by the kind of repository."""

from collections.abc import Mapping

from control_api.webhooks.providers import bitbucket, github, gitlab
from control_api.webhooks.providers.interface import Provider

PROVIDERS: Mapping[str, Provider] = {"github": github, "gitlab": gitlab, "bitbucket": bitbucket}
