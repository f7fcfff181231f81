"""Plans of a project, and reviews: plans that are frozen for 15 minutes."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.roles import Right, Scope
from control_domain.audit import Actor, record_audit_entry
from control_domain.configurations.addresses import VARIABLES, find_kind, read_address
from control_domain.configurations.documents.read_document import collect_configuration
from control_domain.configurations.plan import Plan, find_project_faults, make_plan
from control_domain.configurations.project_state import read_project_state
from control_domain.configurations.sealed_actions import seal_actions
from control_domain.projects.operations import lock_project_row
from control_domain.sealing import SealingKeys
from control_domain.tables.configuration import Review
from control_domain.tables.projects import Project
from pipeline_contracts.errors import NotFound
from pipeline_contracts.times import format_time

REVIEW_LIFETIME = timedelta(minutes=15)
_UNAPPLIED_RETENTION = timedelta(days=30)
_DEPLOYERS_FIELDS = frozenset({"replicas", "state"})
"""The fields of an environment that a deployer may change, besides its variables."""


async def plan_project(
    session: AsyncSession, keys: SealingKeys, project: Project, text: str, bindings: Mapping[str, Any]
) -> Plan:
    """Plan what the document changes in the project as it is now.

    Raises `DocumentFault`, `BadBindings` or `BadConfiguration` with all faults, including those that only this project
    has, and `CannotOpen`.
    """
    document, faults = collect_configuration(
        text, bindings, lambda value: keys.digest(value, project.public_id)
    )
    if document is None:
        faults.check()
    assert document is not None
    state = await read_project_state(session, keys, project)
    known = [*faults.document]
    faults.document.extend(find_project_faults(document, state, known))
    faults.check()
    return make_plan(document, state)


async def create_review(
    session: AsyncSession, keys: SealingKeys, project: Project, plan: Plan, actor: Actor, now: datetime
) -> Review:
    """Freeze the plan. Its secrets are stored sealed, until the review is applied or expires. Raises `NotFound` if the
    project was removed in the meantime."""
    await lock_project_row(session, project)
    sealed = seal_actions(keys, plan.actions, project.public_id)
    review = Review(
        project_id=project.id,
        fingerprint=plan.fingerprint,
        plan=json.dumps(plan.to_json()),
        key_id=sealed.key_id,
        sealed=sealed.data,
        made_by_id=actor.person_id,
        created_at=now,
        expires_at=now + REVIEW_LIFETIME,
    )
    session.add(review)
    await session.flush()
    subject, details = f"project {project.public_id}", {"review": review.id, **plan.to_json()["summary"]}
    record_audit_entry(session, actor, project.account_id, "configuration.review", subject, now, details)
    await session.flush()
    return review


async def find_review(session: AsyncSession, project: Project, number: int | None) -> Review:
    """Return the project's review with this ID, freshly read. Raises `NotFound`."""
    query = select(Review).where(Review.project_id == project.id, Review.id == number)
    found = await session.execute(query.execution_options(populate_existing=True))
    review = found.scalar_one_or_none()
    if review is None:
        raise NotFound("The project has no such review.")
    return review


def describe_review(review: Review, now: datetime) -> dict[str, Any]:
    """Return the review as JSON of the public API."""
    return {
        "id": review.id,
        "plan": json.loads(review.plan),
        "created_at": format_time(review.created_at),
        "expires_at": format_time(review.expires_at),
        "status": derive_status(review, now),
    }


def derive_status(review: Review, now: datetime) -> Literal["open", "applied", "expired"]:
    """Return whether the review can be applied, was applied, or is too old."""
    if review.applied_at is not None:
        return "applied"
    return "expired" if now >= review.expires_at else "open"


def read_planned_actions(review: Review) -> Sequence[Mapping[str, Any]]:
    """Return the actions of the review's plan as JSON of the public API."""
    actions: Sequence[Mapping[str, Any]] = json.loads(review.plan)["actions"]
    return actions


def find_required_right(actions: Iterable[Mapping[str, Any]]) -> Right:
    """Return the right that applying the actions (JSON of the public API) requires: `MANAGE` if they remove a
    resource, or make a change that requires `MANAGE` elsewhere too; otherwise `DEPLOY`."""
    return Right.MANAGE if any(map(_is_for_managers, actions)) else Right.DEPLOY


def _is_for_managers(action: Mapping[str, Any]) -> bool:
    kind = find_kind(read_address(action["resource"]))
    if action["action"] == "delete" or kind == "project":
        return True
    if kind in ("rule", "threshold"):
        return True
    if kind != "environment":
        # Deployers may change monitors and sites.
        return False
    return action["action"] == "create" or not all(
        change["field"] in _DEPLOYERS_FIELDS or change["field"].startswith(f"{VARIABLES}.")
        for change in action["changes"]
    )


def find_required_scopes(actions: Iterable[Mapping[str, Any]]) -> Collection[Scope]:
    """Return the scopes, besides `deploy:write`, that applying the actions (JSON of the public API) requires: a token
    that only deploys cannot redirect or mute notifications."""
    kinds = {find_kind(read_address(action["resource"])) for action in actions}
    return ["notifications:write"] if kinds & {"rule", "threshold"} else []


async def clean_up_reviews(session: AsyncSession, now: datetime) -> None:
    """Delete the secrets of expired reviews, and reviews that were not applied within 30 days."""
    # Account scope: expired reviews of every account are cleaned up.
    expired = (Review.expires_at <= now) & Review.sealed.is_not(None)
    await session.execute(update(Review).where(expired).values(sealed=None, key_id=None))
    old = (Review.expires_at <= now - _UNAPPLIED_RETENTION) & Review.applied_at.is_(None)
    await session.execute(delete(Review).where(old))
