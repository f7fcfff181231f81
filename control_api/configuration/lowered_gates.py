"""Which gates of environments a plan lowers."""

from collections.abc import Sequence

from control_api.configuration.addresses import write_address
from control_api.configuration.plan import Action
from control_api.configuration.state import ProjectState
from control_api.environments.gates import find_lowered, gate_in


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
