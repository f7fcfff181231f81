"""Rows of deployments, of their log lines, and of releases."""

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Index, Integer, String, Text, false, text
from sqlalchemy.orm import Mapped, mapped_column

from control_domain.database.base import Base, UtcDateTime, partial_index
from pipeline_contracts.deploy_states import ACTIVE_STATUSES

_IS_ACTIVE = f"status IN ({', '.join(repr(status.value) for status in ACTIVE_STATUSES)})"

IS_PUSHED = "trigger IN ('push', 'pull_request')"
"""In SQL: whether a webhook has asked for it. An index is of these alone; it serves where this stands word by word."""


class Deployment(Base):
    """One attempt to bring a revision, or a release that there is already, to an environment."""

    __tablename__ = "deployments"
    __table_args__ = (
        # Newest first, of an account and of a project.
        Index("ix_deployments_account_id", "account_id", "id"),
        Index("ix_deployments_project_id", "project_id", "id"),
        Index("ix_deployments_environment_id", "environment_id", "id"),
        # Few refer to another one; who is deleted is looked for among them.
        partial_index(
            "ix_deployments_promoted_from_id", "promoted_from_id", condition="promoted_from_id IS NOT NULL"
        ),
        partial_index(
            "ix_deployments_rolled_back_to_id", "rolled_back_to_id", condition="rolled_back_to_id IS NOT NULL"
        ),
        # The database itself holds "one at a time": a look before the insert would be a race.
        partial_index("uq_deployments_active", "environment_id", condition=_IS_ACTIVE, unique=True),
        # What its Git host is to be told is looked for every few seconds.
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
    """Null once the environment was removed."""
    status: Mapped[str] = mapped_column(String(20))
    """A `DeploymentStatus`; changed by `transition_deployment` alone."""
    trigger: Mapped[str] = mapped_column(String(20))
    revision: Mapped[str | None] = mapped_column(String(64))
    """The commit; known once it was looked up."""
    ref: Mapped[str | None] = mapped_column(String(200))
    promoted_from_id: Mapped[int | None] = mapped_column(ForeignKey("deployments.id"))
    rolled_back_to_id: Mapped[int | None] = mapped_column(ForeignKey("deployments.id"))
    """The deployment whose release this one makes live again."""
    note: Mapped[str | None] = mapped_column(String(500))
    asked_by_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    needs_approval: Mapped[bool]
    """Whether a second person had to agree when it was asked for."""
    decided_by_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    """Who approved or rejected it."""
    decided_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    approved_revision: Mapped[str | None] = mapped_column(String(64))
    approved_variables_id: Mapped[int | None] = mapped_column(ForeignKey("variable_sets.id"))
    """The environment's variables when it was approved: others need another approval."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    finished_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    step: Mapped[str | None] = mapped_column(String(12))
    """A `DeploymentStep`: how far the deployer is. Whoever takes the work over goes on from it."""
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    """How often it was taken up: once, unless a deployer ended in the middle of it."""
    pushed_revision: Mapped[str | None] = mapped_column(String(64))
    """The commit of which a webhook has told. What is built is what the branch has when it is looked up."""
    pushed_from: Mapped[str | None] = mapped_column(String(64))
    """Where the branch was before that push: a host that still says so is behind its own webhook."""
    reported: Mapped[str | None] = mapped_column(String(12))
    """What its Git host was told last of the commit; null: nothing."""
    reported_context: Mapped[str | None] = mapped_column(String(300))
    """The name (context) of the commit status at the host. With `reported` null, the host may have received one under
    this name. It outlives the environment, because the end of a removed environment is reported as well."""
    frozen_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """When the next two were written down; null: not yet."""
    frozen_variables_id: Mapped[int | None]
    """The `VariableSet` that it runs with, whatever is set later; null: none. Goes with its environment."""
    frozen_workflow_id: Mapped[int | None]
    """The `Workflow` that it is carried out by; null: that of its commit or of its release. Goes with its project."""
    approved_digest: Mapped[str | None] = mapped_column(String(64))
    """Of the `DeploymentInputs` that were approved."""
    commit_subject: Mapped[str | None] = mapped_column(String(200))
    """The first line of the commit's message, for the person who approves it."""
    commit_author: Mapped[str | None] = mapped_column(String(200))
    commit_looked_up_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """When a deployer last began to look the commit up."""
    commit_fault: Mapped[str | None] = mapped_column(String(500))
    """Why the last look-up failed; null: it did not."""


class DeploymentLine(Base):
    """One line of a deployment's log, in the order of their IDs."""

    __tablename__ = "deployment_lines"
    __table_args__ = (Index("ix_deployment_lines_deployment_id", "deployment_id", "id"),)

    id: Mapped[int] = mapped_column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True)
    deployment_id: Mapped[int] = mapped_column(ForeignKey("deployments.id"))
    at: Mapped[str] = mapped_column(String(24))
    """As answers have it: a log is read by thousands of lines, and each would be parsed and written again."""
    stream: Mapped[str] = mapped_column(String(6))
    """`stdout`, `stderr`, or `system` for what Pharos itself says."""
    text: Mapped[str] = mapped_column(Text)


class Release(Base):
    """What a deployment built, with the variables that it runs with. One that did not succeed was never live."""

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
    """Where the driver keeps what was built."""
    variables_id: Mapped[int | None] = mapped_column(ForeignKey("variable_sets.id"))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    removed_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """When the artefact was given up; null: retained."""
    workflow: Mapped[str] = mapped_column(Text, server_default="{}")
    """JSON of the workflow document that it was built by, which says how it is run."""


class LiveRelease(Base):
    """Which release an environment serves; no row: none."""

    __tablename__ = "live_releases"

    environment_id: Mapped[int] = mapped_column(
        ForeignKey("environments.id"), primary_key=True, autoincrement=False
    )
    release_id: Mapped[int] = mapped_column(ForeignKey("releases.id"), unique=True)
    since: Mapped[datetime] = mapped_column(UtcDateTime)
    held: Mapped[bool] = mapped_column(server_default=false())
    """Whether somebody rolled back to it: pushes do not deploy over it."""
    deployment_id: Mapped[int | None] = mapped_column(ForeignKey("deployments.id"), index=True)
    """The one that made it live; null: the release's own."""
