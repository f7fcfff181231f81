"""What an operator wants of an environment, read and checked. All raise `Refused`, which says what to do."""

from collections.abc import Mapping
from typing import Any

from control_domain.environments.operations import MAX_REPLICAS
from control_domain.environments.windows import BadWindow, dump_window, parse_window
from control_domain.projects.operations import POSITIONS
from control_domain.refusals import Refused
from control_domain.slugs import read_name
from pipeline_contracts.git_refs import is_ref

_MOST_POSITION = 1000


def read_type(wanted: Mapping[str, Any]) -> str:
    """`type`."""
    type_ = wanted.get("type")
    if type_ not in POSITIONS:
        raise Refused(f"The type is one of {', '.join(POSITIONS)}: give it with --type.")
    return str(type_)


def read_position(wanted: Mapping[str, Any]) -> int | None:
    """`order`, None where it is left out."""
    order = wanted.get("order")
    if order is None:
        return None
    if not isinstance(order, int) or not 0 <= order <= _MOST_POSITION:
        raise Refused(f"The order is a whole number from 0 to {_MOST_POSITION}.")
    return order


def read_branch(wanted: Mapping[str, Any]) -> str | None:
    """`branch`, None where it is left out."""
    branch = wanted.get("branch")
    return None if branch is None else check_branch(branch)


def check_branch(given: Any) -> str:
    """Return the name of a branch. Raises `Refused` for one that Git does not allow."""
    branch = str(given or "")
    if not is_ref(branch):
        raise Refused(f"{branch!r} is no name of a branch that Git allows; one is main.")
    return branch


def read_replicas(wanted: Mapping[str, Any]) -> int:
    """`replicas`."""
    replicas = wanted.get("replicas")
    if not isinstance(replicas, int) or not 1 <= replicas <= MAX_REPLICAS:
        raise Refused(f"The number of replicas is 1 to {MAX_REPLICAS}.")
    return replicas


def read_changes(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The columns to change, and their values: name, branch and window (each may be null, but for the name), order,
    deploy_approval, variable_approval and wake_on_request, those that are given."""
    changes: dict[str, Any] = {}
    if "name" in wanted:
        changes["name"] = read_name(wanted)
    if "branch" in wanted:
        changes["branch"] = read_branch(wanted)
    if wanted.get("order") is not None:
        changes["position"] = read_position(wanted)
    if "window" in wanted:
        changes["deploy_window"] = _read_window(wanted["window"])
    for name, column in (
        ("deploy_approval", "deploys_need_approval"),
        ("variable_approval", "variables_need_approval"),
        ("wake_on_request", "wake_on_request"),
    ):
        if name in wanted:
            changes[column] = bool(wanted[name])
    if not changes:
        raise Refused("Say what to change: `pharos environment set --help` lists what can be.")
    return changes


def _read_window(given: Any) -> str | None:
    if given is None:
        return None
    try:
        return dump_window(parse_window(str(given)))
    except BadWindow as error:
        raise Refused(f"{given!r} is no window: {error}") from error
