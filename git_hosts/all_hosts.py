"""Each Git host's module, by the kind of repository."""

from collections.abc import Mapping

from git_hosts.bitbucket import webhooks as bitbucket
from git_hosts.github import webhooks as github
from git_hosts.gitlab import webhooks as gitlab
from git_hosts.interface import Provider

PROVIDERS: Mapping[str, Provider] = {"github": github, "gitlab": gitlab, "bitbucket": bitbucket}
