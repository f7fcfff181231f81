"""Reads and checks the parameters of environments. All functions raise `Refused` for invalid values."""

from collections.abc import Mapping
from typing import Any

from control_domain import next_steps
from control_domain.environments.operations import MAX_REPLICAS
from control_domain.environments.windows import BadWindow, dump_window, parse_window
from control_domain.projects.operations import POSITIONS
from control_domain.refusals import Refused
from control_domain.slugs import read_name
from pipeline_contracts.git_refs import is_ref

_MAX_POSITION = 1000


def read_type(params: Mapping[str, Any]) -> str:
    type_ = params.get("type")
    if type_ not in POSITIONS:
        raise Refused(f"The type is one of {', '.join(POSITIONS)}: {next_steps.GIVE_ENVIRONMENT_TYPE}")
    return str(type_)


def read_position(params: Mapping[str, Any]) -> int | None:
    """Return `order`, or None if it is left out."""
    order = params.get("order")
    if order is None:
        return None
    if not isinstance(order, int) or not 0 <= order <= _MAX_POSITION:
        raise Refused(f"The order is a whole number from 0 to {_MAX_POSITION}.")
    return order


def read_branch(params: Mapping[str, Any]) -> str | None:
    """Return `branch`, or None if it is left out."""
    branch = params.get("branch")
    return None if branch is None else check_branch(branch)


def check_branch(value: Any) -> str:
    """Return the value as the name of a branch. Raises `Refused` for a name that Git does not allow."""
    branch = str(value or "")
    if not is_ref(branch):
        raise Refused(f"{branch!r} is no name of a branch that Git allows; one is main.")
    return branch


def read_replicas(params: Mapping[str, Any]) -> int:
    replicas = params.get("replicas")
    if not isinstance(replicas, int) or not 1 <= replicas <= MAX_REPLICAS:
        raise Refused(f"The number of replicas is 1 to {MAX_REPLICAS}.")
    return replicas


def read_changes(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns to change and their new values.

    Reads name, branch, window, order, deploy_approval, variable_approval and wake_on_request; branch and window may be
    null. Ignores parameters that are left out.
    """
    changes: dict[str, Any] = {}
    if "name" in params:
        changes["name"] = read_name(params)
    if "branch" in params:
        changes["branch"] = read_branch(params)
    if params.get("order") is not None:
        changes["position"] = read_position(params)
    if "window" in params:
        changes["deploy_window"] = _read_window(params["window"])
    for name, column in (
        ("deploy_approval", "deploys_need_approval"),
        ("variable_approval", "variables_need_approval"),
        ("wake_on_request", "wake_on_request"),
    ):
        if name in params:
            changes[column] = bool(params[name])
    if not changes:
        raise Refused(f"Say what to change: {next_steps.LIST_ENVIRONMENT_SETTINGS}")
    return changes


def _read_window(value: Any) -> str | None:
    if value is None:
        return None
    try:
        return dump_window(parse_window(str(value)))
    except BadWindow as error:
        raise Refused(f"{value!r} is no window: {error}") from error
