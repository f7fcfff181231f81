"""Who may do what with Deploy in a project.

Owners and admins of the account may do everything in all of its projects. A member may do what the role in the project
allows: a viewer reads; a deployer deploys, scales and sets variables as well; a maintainer also decides what waits for
a second person. Without a role there, a member may not use Deploy in the project at all.
"""

from enum import IntEnum

SCOPES = ("account:read", "analytics:read", "deploy:read", "deploy:write")
"""What API tokens may have."""

ACCOUNT_ROLES = ("owner", "admin", "member")
_ALL_PROJECTS = ("owner", "admin")


class Right(IntEnum):
    """What somebody wants to do; each includes those before it."""

    READ = 1
    DEPLOY = 2
    DECIDE = 3


PROJECT_ROLES = {"viewer": Right.READ, "deployer": Right.DEPLOY, "maintainer": Right.DECIDE}
"""The most that each role may do."""


def is_allowed(account_role: str, project_role: str | None, right: Right) -> bool:
    """Whether somebody of these roles may do this; `project_role` None: no role in the project."""
    if account_role in _ALL_PROJECTS:
        return True
    return project_role is not None and PROJECT_ROLES[project_role] >= right


def sees_all_projects(account_role: str) -> bool:
    """Whether the role in the account opens every project."""
    return account_role in _ALL_PROJECTS
