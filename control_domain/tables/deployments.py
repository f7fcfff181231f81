"""Rows of deployments, of their log lines, and of releases."""

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Index, Integer, String, Text, false, text
from sqlalchemy.orm import Mapped, mapped_column

from control_domain.database.base import Base, UtcDateTime, partial_index
from pipeline_contracts.deploy_states import ACTIVE_STATUSES, DeploymentStatus

IS_ACTIVE = f"status IN ({', '.join(repr(status.value) for status in ACTIVE_STATUSES)})"
"""SQL condition: the deployment is active. A query must repeat this text to use the partial index on it."""

IS_AWAITING = f"status = {DeploymentStatus.AWAITING_APPROVAL.value!r}"
"""SQL condition: the deployment waits for approval. A query must repeat this text to use the partial index on it."""

IS_PUSHED = "trigger IN ('push', 'pull_request')"
"""SQL condition: a webhook requested the deployment. A query must repeat this text to use the partial index on it."""


class Deployment(Base):
    """One attempt to make a revision, or an existing release, live in an environment."""

    __tablename__ = "deployments"
    __table_args__ = (
        # For lists of an account and of a project, newest first.
        Index("ix_deployments_account_id", "account_id", "id"),
        # For the time line of an account.
        Index("ix_deployments_created_at", "account_id", "created_at"),
        Index("ix_deployments_project_id", "project_id", "id"),
        Index("ix_deployments_environment_id", "environment_id", "id"),
        # Partial indexes, because few rows refer to another one. Foreign key checks use them on deletion.
        partial_index(
            "ix_deployments_promoted_from_id", "promoted_from_id", condition="promoted_from_id IS NOT NULL"
        ),
        partial_index(
            "ix_deployments_rolled_back_to_id", "rolled_back_to_id", condition="rolled_back_to_id IS NOT NULL"
        ),
        # The database enforces one active deployment at a time; a check before the insert would be a race.
        partial_index("uq_deployments_active", "environment_id", condition=IS_ACTIVE, unique=True),
        # For the pending approvals of an account, which are few of its rows.
        partial_index("ix_deployments_awaiting", "account_id", "id", condition=IS_AWAITING),
        # For the search for commit statuses to report, every few seconds.
        partial_index(
            "ix_deployments_reported",
            "reported",
            "created_at",
            condition=IS_PUSHED,
        ),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"))
    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"))
    repository_id: Mapped[int] = mapped_column(ForeignKey("repositories.id"))
    environment_id: Mapped[int | None] = mapped_column(ForeignKey("environments.id"))
    """Null after the environment was removed."""
    status: Mapped[str] = mapped_column(String(20))
    """A `DeploymentStatus`; changed only by `transition_deployment`."""
    trigger: Mapped[str] = mapped_column(String(20))
    revision: Mapped[str | None] = mapped_column(String(64))
    """The commit; null until it is resolved."""
    ref: Mapped[str | None] = mapped_column(String(200))
    promoted_from_id: Mapped[int | None] = mapped_column(ForeignKey("deployments.id"))
    rolled_back_to_id: Mapped[int | None] = mapped_column(ForeignKey("deployments.id"))
    """The deployment whose release this one makes live again."""
    note: Mapped[str | None] = mapped_column(String(500))
    asked_by_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    needs_approval: Mapped[bool]
    """True if the deployment needed an approval when it was requested."""
    decided_by_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    """The person who approved or rejected it."""
    decided_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    approved_revision: Mapped[str | None] = mapped_column(String(64))
    approved_variables_id: Mapped[int | None] = mapped_column(ForeignKey("variable_sets.id"))
    """The variables of the environment at the approval; other variables need another approval."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    finished_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    step: Mapped[str | None] = mapped_column(String(12))
    """A `DeploymentStep`: the progress of the deployer. The next attempt resumes from it."""
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    """Number of attempts: one, unless a deployer ended during the deployment."""
    pushed_revision: Mapped[str | None] = mapped_column(String(64))
    """The commit that a webhook reported. The build uses the head of the branch when it is resolved."""
    pushed_from: Mapped[str | None] = mapped_column(String(64))
    """The head of the branch before that push. A host that still returns it lags behind its own webhook."""
    reported: Mapped[str | None] = mapped_column(String(12))
    """The last commit status that was reported to the Git host; null: none."""
    reported_context: Mapped[str | None] = mapped_column(String(300))
    """The name (context) of the commit status at the host. With `reported` null, the host may have received one under
    this name. It outlives the environment, because the end of a removed environment is reported as well."""
    frozen_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """When the next two columns were set; null: not yet."""
    frozen_variables_id: Mapped[int | None]
    """The `VariableSet` of this deployment, regardless of later changes; null: none. Deleted with the environment."""
    frozen_workflow_id: Mapped[int | None]
    """The `Workflow` of this deployment; null: that of its commit or release. Deleted with the project."""
    approved_digest: Mapped[str | None] = mapped_column(String(64))
    """Digest of the approved `DeploymentInputs`."""
    commit_subject: Mapped[str | None] = mapped_column(String(200))
    """The first line of the commit's message, for the person who approves it."""
    commit_author: Mapped[str | None] = mapped_column(String(200))
    commit_looked_up_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """When a deployer last began to resolve the commit."""
    commit_fault: Mapped[str | None] = mapped_column(String(500))
    """Why the last attempt to resolve the commit failed; null: it did not."""
    progress: Mapped[str | None] = mapped_column(Text)
    """JSON of when each step began: `{"check_out": "2026-11-20T12:00:00.000Z"}`. Null before the first."""
    new_commits: Mapped[str | None] = mapped_column(Text)
    """JSON of the `NewCommits`, for the person who approves it; JSON null without a live release; null: not yet."""
    new_commits_since: Mapped[str | None] = mapped_column(String(64))
    """The live release's commit with which they were compared; null without one, or if the comparison failed."""


class DeploymentLine(Base):
    """One line of a deployment's log, in the order of their IDs."""

    __tablename__ = "deployment_lines"
    __table_args__ = (Index("ix_deployment_lines_deployment_id", "deployment_id", "id"),)

    id: Mapped[int] = mapped_column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True)
    deployment_id: Mapped[int] = mapped_column(ForeignKey("deployments.id"))
    at: Mapped[str] = mapped_column(String(24))
    """Formatted as in responses, so that thousands of lines are returned without parsing and formatting each time."""
    stream: Mapped[str] = mapped_column(String(6))
    """`stdout`, `stderr`, or `system` for lines that Pharos itself writes."""
    text: Mapped[str] = mapped_column(Text)


class Release(Base):
    """The result of a deployment's build, with its variables. The release of a failed deployment was never live."""

    __tablename__ = "releases"
    __table_args__ = (
        Index("ix_releases_environment_id", "environment_id", "id"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"))
    deployment_id: Mapped[int] = mapped_column(ForeignKey("deployments.id"), unique=True)
    revision: Mapped[str] = mapped_column(String(64))
    artefact: Mapped[str] = mapped_column(String(500))
    """Where the driver stores the artefact."""
    variables_id: Mapped[int | None] = mapped_column(ForeignKey("variable_sets.id"))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    removed_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """When the artefact was deleted; null: retained."""
    workflow: Mapped[str] = mapped_column(Text, server_default="{}")
    """JSON of the workflow document of the build, which also defines the processes to run."""


class LiveRelease(Base):
    """The release that an environment serves. An environment without a row serves none."""

    __tablename__ = "live_releases"

    environment_id: Mapped[int] = mapped_column(
        ForeignKey("environments.id"), primary_key=True, autoincrement=False
    )
    release_id: Mapped[int] = mapped_column(ForeignKey("releases.id"), unique=True)
    since: Mapped[datetime] = mapped_column(UtcDateTime)
    held: Mapped[bool] = mapped_column(server_default=false())
    """True after a rollback: pushes do not replace this release."""
    deployment_id: Mapped[int | None] = mapped_column(ForeignKey("deployments.id"), index=True)
    """The deployment that made it live; null for the deployment that built it."""
