"""Every kind of Git host that Pharos knows: a new one is a package and a line here."""

from collections.abc import Mapping

from git_hosts.bitbucket.host import BITBUCKET
from git_hosts.github.host import GITHUB
from git_hosts.gitlab.host import GITLAB
from git_hosts.interface import GitHost

HOSTS: Mapping[str, GitHost] = {host.kind: host for host in (GITHUB, GITLAB, BITBUCKET)}
"""By the kind of a repository. The kind `git` stands for any other host, and has no webhooks."""
