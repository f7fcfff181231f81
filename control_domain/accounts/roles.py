"""Roles in accounts and projects, the rights that they give, and the scopes of API tokens.

Owners and admins of an account have all rights in all of its projects. A member has the rights of the role in the
project: a viewer reads; a deployer also deploys, scales, sets variables, changes monitors and sites, and acknowledges
and silences incidents; a maintainer also approves or rejects, and changes the project, its environments, rules and
thresholds. Without a role in a project, a member may not use it.
"""

from enum import IntEnum
from typing import Literal, get_args

Scope = Literal[
    "account:read",
    "account:write",
    "projects:write",
    "deploy:read",
    "deploy:write",
    "monitoring:read",
    "monitoring:write",
    "analytics:read",
    "analytics:write",
    "telemetry:read",
    "notifications:read",
    "notifications:write",
]
SCOPES: tuple[Scope, ...] = get_args(Scope)
"""The scopes that an API token may have."""

AccountRole = Literal["owner", "admin", "member"]
ACCOUNT_ROLES: tuple[AccountRole, ...] = get_args(AccountRole)
_ALL_PROJECTS = ("owner", "admin")


class Right(IntEnum):
    """A right in a project; each includes the rights before it."""

    READ = 1
    DEPLOY = 2
    DECIDE = 3
    MANAGE = 4


PROJECT_ROLES = {"viewer": Right.READ, "deployer": Right.DEPLOY, "maintainer": Right.MANAGE}
"""The highest right of each role."""


class AccountRight(IntEnum):
    """A right in an account; each includes the rights before it."""

    READ = 1
    MANAGE = 2
    OWN = 3


_ACCOUNT_RIGHTS = {"owner": AccountRight.OWN, "admin": AccountRight.MANAGE, "member": AccountRight.READ}


def is_allowed(account_role: str, project_role: str | None, right: Right) -> bool:
    """Return True if a person with these roles has the right; `project_role` is None without a role in the project."""
    if account_role in _ALL_PROJECTS:
        return True
    return project_role is not None and PROJECT_ROLES[project_role] >= right


def sees_all_projects(account_role: str) -> bool:
    """Return True if the role in the account gives access to every project."""
    return account_role in _ALL_PROJECTS


def has_account_right(account_role: str, right: AccountRight) -> bool:
    """Return True if the role in the account gives the right."""
    return _ACCOUNT_RIGHTS[account_role] >= right
