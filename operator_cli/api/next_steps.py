"""The next step after a refusal of the API, by the `type` of the problem.

The API describes problems without naming commands; the commands are here. Add a line for a new type if a command
solves its problem. `tests/operator_cli/api/test_next_steps.py` checks that the commands exist.
"""

from collections.abc import Mapping
from typing import Any, Final

_NEXT_STEPS: Final[Mapping[str, str]] = {
    "missing-scope": "`pharos token create` makes a token with more scopes, `pharos login` stores it.",
    "deploy-not-allowed": "A maintainer of the project gives you a role with `pharos project grant`.",
    "last-owner": "Make somebody else owner first: `pharos person set-role PERSON owner`.",
    "deploy-running": "Wait until deployment {active_deployment_id} is finished, or end it with `pharos cancel "
    "{active_deployment_id}`.",
    "environment-locked": "`pharos environment show` says who locked it; `pharos unlock` removes the lock.",
    "outside-window": "`pharos environment show` says when the window opens.",
    "environment-not-ready": "`pharos environment show` shows its state, `pharos repository list` the repositories.",
    "not-retained": "`pharos deployments` lists the deployments.",
    "not-promotable": "`pharos environment list` shows the order of environments.",
    "commit-unknown": "`pharos approve deployment ID --revision SHA` names the commit.",
    "inputs-changed": "`pharos approvals` shows them and their digest, `pharos approve deployment ID --digest DIGEST` "
    "names it.",
    "review-expired": "Plan again: `pharos config apply`.",
    "project-changed": "Plan again: `pharos config apply`.",
    "review-applied": "`pharos config show {application_id}` has its result.",
    "application-running": "`pharos config show {application_id}` has its progress.",
}


def next_step(slug: str, document: Mapping[str, Any]) -> str:
    """Return what to do after a problem of this type, with the members of its document; empty if nothing is known."""
    try:
        return _NEXT_STEPS.get(slug, "").format_map(document)
    except LookupError:
        # The text needs a member that this document lacks.
        return ""
