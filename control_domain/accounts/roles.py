"""Roles in accounts and projects, and the rights that they give to Deploy.

Owners and admins of an account have all rights in all of its projects. A member has the rights of the role in the
project: a viewer reads; a deployer also deploys, scales and sets variables; a maintainer also approves or rejects.
Without a role in a project, a member may not use Deploy in it.
"""

from enum import IntEnum

SCOPES = ("account:read", "analytics:read", "deploy:read", "deploy:write")
"""What API tokens may have."""

ACCOUNT_ROLES = ("owner", "admin", "member")
_ALL_PROJECTS = ("owner", "admin")


class Right(IntEnum):
    """A right in a project; each includes the rights before it."""

    READ = 1
    DEPLOY = 2
    DECIDE = 3


PROJECT_ROLES = {"viewer": Right.READ, "deployer": Right.DEPLOY, "maintainer": Right.DECIDE}
"""The highest right of each role."""


def is_allowed(account_role: str, project_role: str | None, right: Right) -> bool:
    """Return True if a person with these roles has the right; `project_role` is None without a role in the project."""
    if account_role in _ALL_PROJECTS:
        return True
    return project_role is not None and PROJECT_ROLES[project_role] >= right


def sees_all_projects(account_role: str) -> bool:
    """Return True if the role in the account gives access to every project."""
    return account_role in _ALL_PROJECTS
