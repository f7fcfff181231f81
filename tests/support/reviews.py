"""Reviews and configuration runs of a project, created without a document or a worker."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.configurations.addresses import Address
from control_domain.configurations.plan import Action, Change, Plan, make_plan
from control_domain.configurations.project_state import read_project_state
from control_domain.configurations.resources import ConfigurationDocument, DesiredResource, Value
from control_domain.configurations.reviews import REVIEW_LIFETIME
from control_domain.configurations.runs import summarize_steps
from control_domain.configurations.sealed_actions import seal_actions
from control_domain.sealing import SealingKeys
from control_domain.tables.configuration import ConfigurationRun, Review, RunStep
from control_domain.tables.projects import Project
from pipeline_contracts.deploy_states import StepStatus

Resources = Mapping[Address, Mapping[str, Value]]
"""Desired fields by the address of their resource."""
SOURCE = "203.0.113.9"
"""The address that the requests come from."""


async def plan_resources(
    session: AsyncSession,
    keys: SealingKeys,
    project: Project,
    desired: Resources,
    deleted: Iterable[Address] = (),
) -> Plan:
    """Return the plan of a document with these resources."""
    resources = [DesiredResource(address, fields, 1) for address, fields in desired.items()]
    document = ConfigurationDocument(resources, dict.fromkeys(deleted, 1))
    return make_plan(document, await read_project_state(session, keys, project))


async def add_run(
    session: AsyncSession,
    keys: SealingKeys,
    project: Project,
    actions: Sequence[Action],
    statuses: Sequence[StepStatus],
    now: datetime,
) -> tuple[ConfigurationRun, Sequence[RunStep]]:
    """Add a configuration run of these actions with these statuses, without executing any."""
    review = _review(project, Plan(f"sha256:{0:064x}", actions, []), now)
    review.applied_at = now
    session.add(review)
    await session.flush()
    status = summarize_steps(statuses)
    run = ConfigurationRun(
        project_id=project.id,
        review_id=review.id,
        status=status.value,
        source=SOURCE,
        created_at=now,
        finished_at=None if status == "running" else now,
    )
    session.add(run)
    await session.flush()
    steps = [
        _step(keys, project, run, position, action, status, now)
        for position, (action, status) in enumerate(zip(actions, statuses, strict=True))
    ]
    session.add_all(steps)
    await session.flush()
    return run, steps


def _review(project: Project, plan: Plan, now: datetime) -> Review:
    return Review(
        project_id=project.id,
        fingerprint=plan.fingerprint,
        plan=json.dumps(plan.to_json()),
        created_at=now,
        expires_at=now + REVIEW_LIFETIME,
    )


def _step(
    keys: SealingKeys,
    project: Project,
    run: ConfigurationRun,
    position: int,
    action: Action,
    status: StepStatus,
    now: datetime,
) -> RunStep:
    sealed = seal_actions(keys, [action], project.public_id)
    is_begun = status in (StepStatus.RUNNING, StepStatus.SUCCEEDED, StepStatus.FAILED)
    is_ended = status not in (StepStatus.PENDING, StepStatus.RUNNING)
    return RunStep(
        run_id=run.id,
        position=position,
        action=json.dumps(action.to_json()),
        key_id=None if status is StepStatus.SUCCEEDED else sealed.key_id,
        sealed=None if status is StepStatus.SUCCEEDED else sealed.data,
        status=status.value,
        error="It could not be." if status is StepStatus.FAILED else None,
        attempts=int(is_begun),
        started_at=now if is_begun else None,
        finished_at=now if is_ended else None,
    )


@dataclass(frozen=True, slots=True)
class Reviewed:
    """Numbers of an open review without changes, and of a configuration run.

    The first step of the run has failed; `step` is the second one, which is pending.
    """

    review: int
    run: int
    step: int


async def make_reviewed(
    session: AsyncSession, keys: SealingKeys, project: Project, now: datetime
) -> Reviewed:
    """Add these rows to a project, without sealed data, so that tests of keys need not consider them.

    The review cannot be applied until `restore_reviewed` has sealed its actions.
    """
    # Deployers may apply it.
    scale = Action("update", ("environments", "production"), [Change("replicas", 1, 2)])
    states = (StepStatus.FAILED, StepStatus.PENDING)
    run, steps = await add_run(session, keys, project, [scale] * 2, states, now)
    for step in steps:
        step.sealed = step.key_id = None
    plan = await plan_resources(session, keys, project, {})
    review = _review(project, plan, now)
    session.add(review)
    await session.flush()
    return Reviewed(review.id, run.id, steps[1].id)


async def restore_reviewed(
    session: AsyncSession, keys: SealingKeys, project: Project, reviewed: Reviewed, now: datetime
) -> None:
    """Reset the rows, and plan the review again for the project's current state."""
    await session.execute(delete(ConfigurationRun).where(ConfigurationRun.review_id == reviewed.review))
    pending = {"status": StepStatus.PENDING.value, "error": None, "finished_at": None}
    await session.execute(update(RunStep).where(RunStep.id == reviewed.step).values(**pending))
    plan = await plan_resources(session, keys, project, {})
    sealed = seal_actions(keys, plan.actions, project.public_id)
    opened = {
        "fingerprint": plan.fingerprint,
        "key_id": sealed.key_id,
        "sealed": sealed.data,
        "expires_at": now + REVIEW_LIFETIME,
        "applied_at": None,
    }
    await session.execute(update(Review).where(Review.id == reviewed.review).values(**opened))
