"""Writes past deployments of the demo shop to the database, because no API creates a deployment in the past.

The rows are like those of real deployments whose releases are no longer retained.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.engine import Sessions
from control_domain.recorded_deployments.markers import mark_deployment
from control_domain.tables.accounts import Person
from control_domain.tables.deployments import Deployment, DeploymentLine
from control_domain.tables.projects import Environment, Project
from demo.story.releases import COMMITS, PastDeployment, Timeline, list_past_deployments
from pipeline_contracts.times import format_time

_STEPS = {"succeeded": "switch", "failed": "build", "canceled": "build", "rejected": None}
_BUILD = (
    "npm ci: 214 packages in 6.1 s",
    "vite build: 48 modules, 141 kB gzipped",
    "compile translations: nb, sv, de, en",
)
_FAILURE = (
    (
        "stderr",
        "FAILED tests/checkout/test_wrapping.py::test_wrapping_is_taxed - AssertionError: 4.90 != 6.13",
    ),
    ("stdout", "1 failed, 218 passed in 11.4 s"),
)


async def write_past_deployments(
    sessions: Sessions, project_id: str, timeline: Timeline, revisions: Mapping[str, str], repository_id: int
) -> int:
    """Add the deployments with their logs and their marks on the time line, in one transaction; return their number.

    `project_id` is the public ID of the shop's project; `revisions` are the commits by version.
    """
    # Account scope: the project is the one of the credentials of this installation.
    async with sessions() as session, session.begin():
        project = (await session.execute(select(Project).where(Project.public_id == project_id))).scalar_one()
        environments = {
            environment.slug: environment
            for environment in await session.scalars(
                select(Environment).where(Environment.project_id == project.id)
            )
        }
        writer = _Writer(session, project, repository_id, revisions, timeline)
        past = list_past_deployments()
        for each in past:
            await writer.add(each, environments[each.environment])
        return len(past)


class _Writer:
    def __init__(
        self,
        session: AsyncSession,
        project: Project,
        repository_id: int,
        revisions: Mapping[str, str],
        timeline: Timeline,
    ) -> None:
        self._session, self._project, self._repository_id = session, project, repository_id
        self._revisions, self._timeline = revisions, timeline
        self._subjects = {commit.version: commit for commit in COMMITS}
        self._built: dict[tuple[str, str], int] = {}
        """The deployment that built a version in an environment."""

    async def add(self, each: PastDeployment, environment: Environment) -> None:
        began = self._timeline.at(each.hours_ago)
        ended = began + timedelta(seconds=each.seconds)
        commit, revision = self._subjects[each.version], self._revisions[each.version]
        deployment = Deployment(
            account_id=self._project.account_id,
            project_id=self._project.id,
            repository_id=self._repository_id,
            environment_id=environment.id,
            status=each.outcome,
            trigger=each.trigger,
            revision=revision,
            ref=("main" if each.environment == "production" else "develop")
            if each.trigger == "push"
            else None,
            note=each.note,
            asked_by_id=await self._find_person(each.person),
            needs_approval=False,
            created_at=began,
            finished_at=ended,
            step=_STEPS[each.outcome],
            attempts=1,
            pushed_revision=revision if each.trigger == "push" else None,
            commit_subject=commit.subject,
            commit_author=commit.author,
            # Commit statuses of past deployments are not reported.
            reported="success" if each.outcome == "succeeded" else "failure",
            promoted_from_id=self._built.get(("staging", each.version))
            if each.trigger == "promotion"
            else None,
            rolled_back_to_id=self._built.get((each.environment, each.version))
            if each.trigger == "rollback"
            else None,
        )
        self._session.add(deployment)
        await self._session.flush()
        self._built.setdefault((each.environment, each.version), deployment.id)
        self._session.add_all(_write_log(deployment.id, each, revision, began, ended))
        if each.outcome == "succeeded":
            await mark_deployment(self._session, environment.id, deployment.id, revision, ended)

    async def _find_person(self, name: str | None) -> int | None:
        if name is None:
            return None
        query = select(Person.id).where(Person.name == name).order_by(Person.id.desc()).limit(1)
        return (await self._session.execute(query)).scalar_one_or_none()


def _write_log(
    deployment_id: int, each: PastDeployment, revision: str, began: datetime, ended: datetime
) -> Iterator[DeploymentLine]:
    lines = list(_list_lines(each, revision))
    step = (ended - began) / max(1, len(lines) - 1)
    for number, (stream, text) in enumerate(lines):
        at = format_time(began + step * number)
        yield DeploymentLine(deployment_id=deployment_id, at=at, stream=stream, text=text)


def _list_lines(each: PastDeployment, revision: str) -> Sequence[tuple[str, str]]:
    short = revision[:7]
    system = "system"
    if each.trigger in ("rollback", "promotion"):
        return [
            (system, f"Queued: the release of commit {short}."),
            (system, "Started 1 process of web and 1 of worker."),
            (system, "web is healthy: GET /healthz returned 200."),
            (system, "Live."),
        ]
    lines = [(system, f"Queued: main at {short}."), (system, f"Checked out {short}.")]
    lines += [("stdout", text) for text in _BUILD]
    match each.outcome:
        case "failed":
            return [*lines, *_FAILURE, (system, "Failed: build step 2 exited with status 1.")]
        case "canceled":
            return [*lines[:3], (system, "Canceled.")]
    return [
        *lines,
        ("stdout", "218 passed in 11.2 s"),
        ("stdout", "migrate: nothing to apply"),
        (system, "Started 1 process of web and 1 of worker."),
        (system, "web is healthy: GET /healthz returned 200."),
        (system, "Live."),
    ]
