"""Which gates of environments a plan lowers."""

import json
from collections.abc import Sequence

from control_domain.configurations.addresses import write_address
from control_domain.configurations.plan import Action
from control_domain.configurations.state import ProjectState
from control_domain.environments.gates import find_lowered, gate_in
from control_domain.tables.configuration import Review
from pipeline_contracts.errors import DeployNotAllowed


def find_lowered_gates(actions: Sequence[Action], state: ProjectState) -> Sequence[str]:
    """Name what these actions take away from environments of the project: `the approval of deploys of
    environments.production`."""
    lowered = []
    for action in actions:
        present = state.resources.get(action.address)
        if action.kind != "environment" or present is None:
            continue
        after = {**present.fields, **{change.field: change.after for change in action.changes}}
        gate = None if action.verb == "delete" else gate_in(after)
        called = write_address(action.address)
        lowered += [f"{one} of {called}" for one in find_lowered(gate_in(present.fields), gate)]
    return lowered


def write_agreed(actions: Sequence[Action], state: ProjectState) -> str | None:
    """Return the stored note of the gates that the actions lower by agreement; see `read_agreed`."""
    lowered = find_lowered_gates(actions, state)
    return json.dumps(lowered) if lowered else None


def read_agreed(note: str | None) -> Sequence[str]:
    """Return the gates that a second person agreed to lower, named as by `find_lowered_gates`."""
    agreed: Sequence[str] = [] if note is None else json.loads(note)
    return agreed


def check_agreed(
    review: Review, called: str, lowered: Sequence[str], agreed_by_id: int | None, advice: str
) -> None:
    """Raises `DeployNotAllowed` where `called` lowers gates and the one who agrees is nobody, or may be the one who
    made the review. `advice` says what to do then."""
    if lowered and (agreed_by_id is None or review.made_by_id in (None, agreed_by_id)):
        raise DeployNotAllowed(
            f"{called} takes away {'; '.join(lowered)}. A second person has to agree to that: {advice}"
        )
