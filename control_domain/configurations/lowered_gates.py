"""Gates of environments that a plan lowers: find them, store the approval, check for a second person."""

import json
from collections.abc import Sequence

from control_domain.configurations.addresses import write_address
from control_domain.configurations.plan import Action, desired_fields
from control_domain.configurations.resources import ProjectState
from control_domain.environments.gates import find_lowered, read_gate_fields
from control_domain.tables.configuration import Review
from pipeline_contracts.errors import DeployNotAllowed


def find_lowered_gates(actions: Sequence[Action], state: ProjectState) -> Sequence[str]:
    """Name the gates that the actions lower: `the approval of deploys of environments.production`."""
    lowered = []
    for action in actions:
        resource = state.resources.get(action.address)
        if action.kind != "environment" or resource is None:
            continue
        after = {**resource.fields, **desired_fields(action.changes)}
        gate = None if action.verb == "delete" else read_gate_fields(after)
        name = write_address(action.address)
        lowered += [
            f"{gate_name} of {name}" for gate_name in find_lowered(read_gate_fields(resource.fields), gate)
        ]
    return lowered


def encode_approved_gates(actions: Sequence[Action], state: ProjectState) -> str | None:
    """Return the stored form of the gates that the actions lower with approval; see `decode_approved_gates`."""
    lowered = find_lowered_gates(actions, state)
    return json.dumps(lowered) if lowered else None


def decode_approved_gates(stored: str | None) -> Sequence[str]:
    """Return the gates that a second person approved to lower, named as by `find_lowered_gates`."""
    approved: Sequence[str] = [] if stored is None else json.loads(stored)
    return approved


def check_gates_approved(
    review: Review, subject: str, lowered: Sequence[str], approved_by_id: int | None, advice: str
) -> None:
    """Raise `DeployNotAllowed` if gates are lowered without an approver, or if the approver may be the review's
    author.

    `subject` begins the message, `advice` ends it.
    """
    if lowered and (approved_by_id is None or review.made_by_id in (None, approved_by_id)):
        raise DeployNotAllowed(
            f"{subject} takes away {'; '.join(lowered)}. A second person has to agree to that: {advice}"
        )
