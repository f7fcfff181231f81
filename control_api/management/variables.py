"""Variables of environments, and the decisions on changes of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from msgspec import Meta, Struct

from control_api.management.environments import Reason
from control_api.operations.access import At, at
from control_api.operations.bodies import json_body
from control_api.operations.router import Accepted, OperationRouter
from control_domain.accounts.roles import Right
from control_domain.projects.find import DeployTarget, find_environment
from control_domain.sealing import CannotOpen
from control_domain.slugs import check_reason
from control_domain.variables.check_values import check_is_set, check_new_name, check_update, check_value
from control_domain.variables.decisions import (
    ChangeWithTarget,
    decide_variable_change,
    find_change_to_reject,
    find_variable_change,
)
from control_domain.variables.describe import (
    PendingApproval,
    VariableChangeDocument,
    VariablesDocument,
    describe_change,
    describe_pending_approval,
    read_variables,
)
from control_domain.variables.dotenv import MAX_TEXT_BYTES, MAX_VARIABLES
from control_domain.variables.operations import update_variables
from control_domain.variables.protection import protect_variables, request_unprotection
from control_domain.variables.versions import find_newest_variables, open_variables
from pipeline_contracts.deploy_states import ChangeState, ForbiddenTransition
from pipeline_contracts.errors import Conflict, SecondPersonRequired, Unavailable

operations = OperationRouter("Deploy")

_Read = Annotated[At[DeployTarget], at(find_environment, "environment", "deploy:read", Right.READ)]
_Deploy = Annotated[At[DeployTarget], at(find_environment, "environment", "deploy:write", Right.DEPLOY)]
_Decide = Annotated[At[ChangeWithTarget], at(find_variable_change, "change", "deploy:write", Right.DECIDE)]
_Reject = Annotated[At[ChangeWithTarget], at(find_change_to_reject, "change", "deploy:write", Right.DEPLOY)]

# JSON writes each character of a value as \u00XX at worst.
_MAX_BODY_BYTES = 6 * MAX_TEXT_BYTES + 64 * 1024


class UpdateVariables(Struct, kw_only=True):
    """Variables that are set or removed together; all others stay unchanged."""

    set: Annotated[
        dict[str, str],
        Meta(max_length=MAX_VARIABLES, description="Values by name.", examples=[{"LOG_LEVEL": "info"}]),
    ] = {}
    unset: Annotated[
        list[str], Meta(max_length=MAX_VARIABLES, description="Names of variables to remove.")
    ] = []


class SetVariable(Struct, kw_only=True):
    """The value of one variable."""

    value: Annotated[str, Meta(description="Name, `=` and value together have less than 128 KiB.")]


class RejectChange(Struct, kw_only=True):
    """The reason for rejecting a change."""

    reason: Reason


@contextmanager
def _opening() -> Iterator[None]:
    """Raise `Unavailable` if the variables cannot be opened with the keys of this process."""
    try:
        yield
    except CannotOpen as error:
        raise Unavailable("The environment's variables cannot be opened here now.", retry_after=60) from error


async def _answer(
    at: At[DeployTarget], change_id: int | None
) -> VariablesDocument | Accepted[PendingApproval]:
    if change_id is not None:
        return Accepted(describe_pending_approval(change_id))
    return await read_variables(at.session, at.sealing_keys, at.found)


@operations.get("/v1/environments/{environment}/variables")
async def list_variables(at: _Read) -> VariablesDocument:
    """List the variables of an environment.

    Their names and protection, and the changes that wait for a second person. No operation returns a value.
    """
    with _opening():
        return await read_variables(at.session, at.sealing_keys, at.found)


@operations.patch("/v1/environments/{environment}/variables", problems=[Conflict])
async def update_some_variables(
    at: _Deploy, body: Annotated[UpdateVariables, json_body(UpdateVariables, max_bytes=_MAX_BODY_BYTES)]
) -> VariablesDocument | Accepted[PendingApproval]:
    """Set and remove some variables.

    Other variables stay unchanged, also those that another request sets at the same time. Names to remove that are not
    set are ignored. The change takes effect with the next release. If the environment requires a second person for
    variables, the change waits: 202.
    """
    check_update(body.set, body.unset)
    with _opening():
        change_id = await update_variables(
            at.session, at.sealing_keys, at.found, body.set, body.unset, at.actor, at.now
        )
        return await _answer(at, change_id)


@operations.put("/v1/environments/{environment}/variables/{variable}", problems=[Conflict])
async def set_variable(
    at: _Deploy, body: Annotated[SetVariable, json_body(SetVariable, max_bytes=_MAX_BODY_BYTES)]
) -> VariablesDocument | Accepted[PendingApproval]:
    """Set one variable.

    The change takes effect with the next release. If the environment requires a second person for variables, the
    change waits: 202.
    """
    name = at.text("variable")
    check_new_name(name)
    check_value(name, body.value)
    with _opening():
        change_id = await update_variables(
            at.session, at.sealing_keys, at.found, {name: body.value}, [], at.actor, at.now
        )
        return await _answer(at, change_id)


@operations.delete("/v1/environments/{environment}/variables/{variable}", problems=[Conflict])
async def unset_variable(at: _Deploy) -> VariablesDocument | Accepted[PendingApproval]:
    """Remove one variable.

    404 if it is not set. If the environment requires a second person for variables, the change waits: 202.
    """
    name = at.text("variable")
    environment = at.found.environment
    with _opening():
        newest = await find_newest_variables(at.session, environment)
        check_is_set(name, open_variables(at.sealing_keys, newest, environment.public_id))
        change_id = await update_variables(
            at.session, at.sealing_keys, at.found, {}, [name], at.actor, at.now
        )
        return await _answer(at, change_id)


@operations.put("/v1/environments/{environment}/variables/{variable}/protection", problems=[Conflict])
async def protect_variable(at: _Deploy) -> VariablesDocument:
    """Protect a variable.

    From now on, previews get no copy of it. The name is protected, whether or not the variable is set.
    """
    name = at.text("variable")
    check_new_name(name)
    await protect_variables(at.session, at.found, [name], at.actor, at.now)
    with _opening():
        return await read_variables(at.session, at.sealing_keys, at.found)


@operations.delete("/v1/environments/{environment}/variables/{variable}/protection", problems=[Conflict])
async def unprotect_variable(at: _Deploy) -> VariablesDocument | Accepted[PendingApproval]:
    """Remove the protection of a variable.

    Previews get copies of it again. 404 if it is not protected. If the environment requires a second person for deploys
    or variables, the change waits: 202.
    """
    with _opening():
        change_id = await request_unprotection(at.session, at.found, at.text("variable"), at.actor, at.now)
        return await _answer(at, change_id)


@operations.post("/v1/variable-changes/{change}/approve", problems=[Conflict, SecondPersonRequired])
async def approve_variable_change(at: _Decide) -> VariableChangeDocument:
    """Approve a change of variables.

    The change takes effect with the next release. The approver must not be the person who requested it. A change of
    some variables is merged with the present variables. 409 if the change is decided already, and for a change of some
    variables while an older change of the same variables, or a replacement of all, waits.
    """
    return await _decide(at, ChangeState.APPLIED, None)


@operations.post("/v1/variable-changes/{change}/reject", problems=[Conflict])
async def reject_variable_change(
    at: _Reject, body: Annotated[RejectChange, json_body(RejectChange)]
) -> VariableChangeDocument:
    """Reject a change of variables.

    Its values are deleted. Maintainers and the person who requested the change may reject it. 409 if the change is
    decided already.
    """
    return await _decide(at, ChangeState.REJECTED, check_reason(body.reason))


async def _decide(at: At[ChangeWithTarget], to: ChangeState, reason: str | None) -> VariableChangeDocument:
    change, target = at.found.change, at.found.target
    try:
        with _opening():
            await decide_variable_change(
                at.session, change, target, to, at.caller.person, at.actor, at.now, reason, at.sealing_keys
            )
    except ForbiddenTransition as error:
        raise Conflict(
            f"Change {change.id} is {error.current}: only a change that waits can be decided."
        ) from error
    return await describe_change(at.session, at.sealing_keys, change, target)
