"""All supported kinds of Git hosts. A new host is a package next to the others and one entry in `HOSTS`."""

from collections.abc import Mapping

from git_hosts.bitbucket.host import BITBUCKET
from git_hosts.github.host import GITHUB
from git_hosts.gitlab.host import GITLAB
from git_hosts.interface import GitHost

HOSTS: Mapping[str, GitHost] = {host.kind: host for host in (GITHUB, GITLAB, BITBUCKET)}
"""Keyed by the kind of a repository. Repositories of the kind `git` are on any other host, and have no webhooks."""
