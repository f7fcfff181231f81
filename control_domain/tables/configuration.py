"""Rows of configuration reviews, of configuration runs, and of the steps of runs."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, LargeBinary, String, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from control_domain.database.base import Base, UtcDateTime, partial_index


class Review(Base):
    """A plan, frozen for a short time so that a person can inspect and apply it."""

    __tablename__ = "config_reviews"
    __table_args__ = (
        Index("ix_config_reviews_project_id", "project_id", "id"),
        # A partial index of the few reviews that still have their secrets.
        partial_index("ix_config_reviews_sealed", "expires_at", condition="sealed IS NOT NULL"),
        # Never reuse an ID: a person who noted the ID of a deleted review would apply a review that others inspected.
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"))
    fingerprint: Mapped[str] = mapped_column(String(71))
    """The fingerprint of the project's state at the time of the plan."""
    plan: Mapped[str] = mapped_column(Text)
    """JSON as the API returns it, with masked secrets."""
    key_id: Mapped[str | None] = mapped_column(String(8))
    sealed: Mapped[bytes | None] = mapped_column(LargeBinary)
    """The actions with their secrets; null once the review is applied or expired."""
    made_by_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime] = mapped_column(UtcDateTime)
    applied_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class ConfigurationRun(Base):
    """The run that applies a review."""

    __tablename__ = "config_applications"
    __table_args__ = (
        UniqueConstraint("review_id"),
        Index("ix_config_applications_project_id", "project_id", "id"),
        # One running run per project, found without scanning the finished ones.
        partial_index(
            "uq_config_applications_running", "project_id", condition="status = 'running'", unique=True
        ),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"))
    review_id: Mapped[int] = mapped_column(ForeignKey("config_reviews.id"))
    status: Mapped[str] = mapped_column(String(12))
    """A `ConfigurationRunStatus`, derived from the steps."""
    source: Mapped[str] = mapped_column(String(100))
    """This column and the next three: the person or token that applied the review, for the audit log."""
    person_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    token_id: Mapped[int | None] = mapped_column(ForeignKey("api_tokens.id"))
    request_id: Mapped[str | None] = mapped_column(String(128))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    finished_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    holder: Mapped[str | None] = mapped_column(String(40))
    """The worker that has leased the run until `leased_until`."""
    leased_until: Mapped[datetime | None] = mapped_column(UtcDateTime)


class RunStep(Base):
    """One action of a configuration run, applied as a whole or not at all, in the order of positions."""

    __tablename__ = "config_operations"
    __table_args__ = (UniqueConstraint("application_id", "position"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[int] = mapped_column("application_id", ForeignKey("config_applications.id"))
    position: Mapped[int]
    """From 0."""
    action: Mapped[str] = mapped_column(Text)
    """JSON of the plan's action as the API returns it, with masked secrets."""
    key_id: Mapped[str | None] = mapped_column(String(8))
    sealed: Mapped[bytes | None] = mapped_column(LargeBinary)
    """The action with its secrets; null once the step can no longer be applied."""
    status: Mapped[str] = mapped_column(String(12))
    """A `StepStatus`; only `move_step` changes it."""
    publications: Mapped[str | None] = mapped_column("to_tell", Text)
    """JSON of the `Publications` of a step that is applied but not yet published to the edges; else null."""
    error: Mapped[str | None] = mapped_column(Text)
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    """How often the step was started: more than once after a failure or the end of a worker."""
    started_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    finished_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    approved_gates: Mapped[str | None] = mapped_column("agreed", Text)
    """JSON list of the gates that the step lowers with a second person's approval; null: none."""
