"""The gate of an environment: what wants a second person there, and when deploys are taken. To lower it wants a second
person too, by every way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.roles import Right
from control_domain.environments.windows import DeployWindow, load_window, read_window
from control_domain.projects.members import check_second_person, resolve_member
from control_domain.refusals import Refused
from control_domain.tables.projects import Environment, Project

REMOVED = "the environment itself"
UNPROTECTED = "the protection of variables"


@dataclass(frozen=True, slots=True)
class Gate:
    """What keeps one person from changing alone what an environment runs."""

    deploys: bool
    variables: bool
    window: DeployWindow | None

    @property
    def needs_second_person(self) -> bool:
        """Whether anything there waits for a second person."""
        return self.deploys or self.variables


def read_gate(environment: Environment) -> Gate:
    """Return the gate that the environment has now."""
    return Gate(
        environment.deploys_need_approval,
        environment.variables_need_approval,
        load_window(environment.deploy_window),
    )


def read_gate_fields(fields: Mapping[str, Any]) -> Gate:
    """Return the gate of an environment whose fields are as a configuration has them."""
    window = fields.get("window")
    return Gate(
        bool(fields.get("approval.deploys")),
        bool(fields.get("approval.variables")),
        None if window is None else read_window(window),
    )


def find_lowered(before: Gate, after: Gate | None) -> Sequence[str]:
    """Name what is taken away or widened; `after` is None where the environment is removed, which could be made anew
    without a gate. Empty where the gate is not lowered, and where nothing there wanted a second person."""
    if not before.needs_second_person:
        return []
    if after is None:
        return [REMOVED]
    lowered = []
    if before.deploys and not after.deploys:
        lowered.append("the approval of deploys")
    if before.variables and not after.variables:
        lowered.append("the approval of variables")
    if before.window is not None and not before.window.covers(after.window):
        lowered.append("limits of the deploy window")
    return lowered


async def require_second_person(
    session: AsyncSession, project: Project, called: str, lowered: Sequence[str], wanted: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what the audit log is to say of who agreed; empty where nothing is lowered.

    `wanted`: by, approved_by (e-mail addresses). Raises `Refused` unless they are two people, of whom the first may
    deploy in the project and the second may decide there.
    """
    if not lowered:
        return {}
    if wanted.get("by") is None or wanted.get("approved_by") is None:
        raise Refused(
            f"{called} wants a second person, and this would take away {' and '.join(lowered)}: say who asks for it "
            "with --by EMAIL, and who agrees with --approved-by EMAIL."
        )
    asker = await resolve_member(session, project, str(wanted["by"]), Right.DEPLOY)
    second = await resolve_member(session, project, str(wanted["approved_by"]), Right.DECIDE)
    check_second_person(asker.id, second)
    return {"lowered": list(lowered), "asked_by": asker.email, "approved_by": second.email}
