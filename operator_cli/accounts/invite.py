"""`pharos person invite`: lets somebody join the account."""

import argparse
from typing import Any, Final

from operator_cli.api.client import Api
from operator_cli.api.names import resolve_project
from operator_cli.arguments import complete
from operator_cli.durations import format_utc_minute, parse_duration
from operator_cli.messages import print_result

ROLES: Final = ("owner", "admin", "member")
_PROJECT_ROLES: Final = ("viewer", "deployer", "maintainer")


def add_invite_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `pharos person invite`."""
    parser.add_argument("email", metavar="EMAIL", help="the person's address; its case does not matter")
    parser.add_argument("--role", choices=ROLES, default="member", help="in the account (member)")
    project = parser.add_argument(
        "--project",
        action="append",
        default=[],
        type=_parse_project_role,
        metavar="PROJECT=ROLE",
        dest="project_roles",
        help=f"a role in a project, {', '.join(_PROJECT_ROLES)}: shop=deployer; may be repeated",
    )
    complete(project, "project")
    parser.add_argument(
        "--expires",
        type=parse_duration,
        metavar="TIME",
        help="how long the invitation is valid: 2d (7d; at most 30d)",
    )


def _parse_project_role(text: str) -> tuple[str, str]:
    """Return the project and the role of `shop=deployer`. Raises `argparse.ArgumentTypeError`."""
    project, _, role = text.rpartition("=")
    if not project or role not in _PROJECT_ROLES:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not PROJECT=ROLE with one of the roles {', '.join(_PROJECT_ROLES)}"
        )
    return project, role


def invite(api: Api, arguments: argparse.Namespace) -> int:
    """Invite a person, and print how to join. Returns exit status 0. Raises `CommandFailed`."""
    roles = [
        {"project": resolve_project(api, project).id, "role": role}
        for project, role in arguments.project_roles
    ]
    body = {
        "email": arguments.email,
        "role": arguments.role,
        "project_roles": roles,
        "expires_in": arguments.expires,
    }
    invitation = api.post("invitations", body=body)
    url = api.target.base_url.removesuffix("/api")
    return print_result(arguments, invitation, lambda made: _show(made, url), quiet="secret")


def _show(invitation: dict[str, Any], url: str) -> None:
    until = format_utc_minute(invitation["expires_at"])
    roles = [
        f"{invitation['role']} of the account",
        *(f"{each['role']} of {each['project']['slug']}" for each in invitation["project_roles"]),
    ]
    print(f"{invitation['email']} is invited until {until}, as {' and '.join(roles)}.")
    print("Pharos does not e-mail it: pass this on. It is shown once; anybody who has it can join.")
    # Always print `pharos`, because the command is for another machine.
    print(f"  pharos login {url} --invitation --name 'YOUR NAME'")
    print("and the invitation, for which the command asks:")
    print(f"  {invitation['secret']}")
