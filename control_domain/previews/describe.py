"""Reads previews, as the public API returns them."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypedDict

from msgspec import Meta
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.public_ids import matches_id
from control_domain.deployments.describe import describe_deployment
from control_domain.environments.describe import EnvironmentDetails, RemovedCounts, list_details
from control_domain.paging import Page
from control_domain.previews.operations import PREVIEW
from control_domain.projects.describe import EnvironmentSummary, summarize_environment
from control_domain.projects.find import DeployTarget
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment, Project
from control_domain.tables.runtime import EnvironmentLease
from control_domain.tables.webhooks import ClosingPreview
from pipeline_contracts.errors import NotFound


class PreviewDocument(EnvironmentDetails):
    """An environment for one branch or pull request."""

    address: Annotated[str | None, Meta(description="Its URL. Null until a deployer has it.")]
    variables_from: Annotated[
        EnvironmentSummary | None,
        Meta(
            description="The environment whose variables were copied. Null if there was none or it was removed."
        ),
    ]
    closing: Annotated[
        bool,
        Meta(description="True if its pull request was closed and it will be removed after its deployment."),
    ]


class OpenedPreview(TypedDict):
    """A preview, and the deployment of its branch."""

    preview: PreviewDocument
    deployment: Annotated[dict[str, Any], Meta(extra_json_schema={"$ref": "#/components/schemas/Deployment"})]


class RemovedPreview(TypedDict):
    """A preview that was removed."""

    id: str
    name: str
    slug: str
    branch: str | None
    removed: RemovedCounts


async def list_previews(
    session: AsyncSession, project: Project, page: Page
) -> tuple[Sequence[Environment], bool]:
    """Return a page of the previews of the project, the newest first, and whether more follow."""
    query = (
        select(Environment)
        .where(Environment.project_id == project.id, Environment.type == PREVIEW)
        .order_by(Environment.id.desc())
        .limit(page.limit + 1)
    )
    if page.before is not None:
        query = query.where(Environment.id < page.before)
    found = (await session.execute(query)).scalars().all()
    return found[: page.limit], len(found) > page.limit


async def find_preview(session: AsyncSession, project: Project, number_or_id: str) -> DeployTarget:
    """Return the preview of the project with this number or public ID. Raises `NotFound`."""
    query = select(Environment).where(
        Environment.project_id == project.id,
        Environment.type == PREVIEW,
        matches_id(Environment.id, Environment.public_id, number_or_id),
    )
    found = (await session.execute(query)).scalar_one_or_none()
    if found is None:
        raise NotFound("The project has no such preview.")
    return DeployTarget(found, project)


class _Facts(NamedTuple):
    """The properties of a preview that other environments lack."""

    address: str | None
    source: Environment | None
    is_closing: bool


async def describe_previews(
    session: AsyncSession, project: Project, previews: Sequence[Environment]
) -> list[PreviewDocument]:
    """Return the documents of previews of the project."""
    details = await list_details(session, [DeployTarget(preview, project) for preview in previews])
    facts = await _read_facts(session, project, previews)
    documents: list[PreviewDocument] = []
    for preview, document in zip(previews, details, strict=True):
        address, source, is_closing = facts[preview.id]
        documents.append(
            {
                **document,
                "address": address,
                "variables_from": None if source is None else summarize_environment(source),
                "closing": is_closing,
            }
        )
    return documents


async def describe_opened(
    session: AsyncSession, target: DeployTarget, deployment: Deployment
) -> OpenedPreview:
    [preview] = await describe_previews(session, target.project, [target.environment])
    return {"preview": preview, "deployment": describe_deployment(deployment, target.environment.public_id)}


async def _read_facts(
    session: AsyncSession, project: Project, previews: Sequence[Environment]
) -> Mapping[int, _Facts]:
    ids = [preview.id for preview in previews]
    leases = select(EnvironmentLease.environment_id, EnvironmentLease.address).where(
        EnvironmentLease.environment_id.in_(ids)
    )
    addresses = {row.environment_id: row.address for row in await session.execute(leases)}
    closing_rows = select(ClosingPreview.environment_id).where(ClosingPreview.environment_id.in_(ids))
    closing = set((await session.execute(closing_rows)).scalars())
    source_ids = {preview.variables_of_id for preview in previews}
    sources_query = select(Environment).where(
        Environment.project_id == project.id, Environment.id.in_([each for each in source_ids if each])
    )
    sources = {source.id: source for source in (await session.execute(sources_query)).scalars()}
    return {
        preview.id: _Facts(
            addresses.get(preview.id), sources.get(preview.variables_of_id or 0), preview.id in closing
        )
        for preview in previews
    }
