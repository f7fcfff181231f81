"""Rows of configuration reviews, of their applications, and of the operations of these."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, LargeBinary, String, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from control_domain.database.engine import Base, Moment, partial_index


class Review(Base):
    """A plan, frozen for a while for somebody to look at and to apply."""

    __tablename__ = "config_reviews"
    __table_args__ = (
        Index("ix_config_reviews_project_id", "project_id", "id"),
        # The few whose secrets have not been given up yet.
        partial_index("ix_config_reviews_sealed", "expires_at", condition="sealed IS NOT NULL"),
        # No number twice: whoever kept one would apply what somebody else has reviewed.
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"))
    fingerprint: Mapped[str] = mapped_column(String(71))
    """Of the project as the plan saw it."""
    plan: Mapped[str] = mapped_column(Text)
    """JSON, as it is shown: secrets are masked."""
    key_id: Mapped[str | None] = mapped_column(String(8))
    sealed: Mapped[bytes | None] = mapped_column(LargeBinary)
    """The actions with their secrets; null once it was applied or has expired."""
    made_by_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    created_at: Mapped[datetime] = mapped_column(Moment)
    expires_at: Mapped[datetime] = mapped_column(Moment)
    applied_at: Mapped[datetime | None] = mapped_column(Moment)


class Application(Base):
    """A review that is being carried out, or was."""

    __tablename__ = "config_applications"
    __table_args__ = (
        UniqueConstraint("review_id"),
        Index("ix_config_applications_project_id", "project_id", "id"),
        # One at a time in a project; and it is found without looking through all that ever were.
        partial_index(
            "uq_config_applications_running", "project_id", condition="status = 'running'", unique=True
        ),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"))
    review_id: Mapped[int] = mapped_column(ForeignKey("config_reviews.id"))
    status: Mapped[str] = mapped_column(String(12))
    """An `ApplicationStatus`: what its operations come to."""
    source: Mapped[str] = mapped_column(String(100))
    """With the next three: who applied it, for the audit log."""
    person_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    token_id: Mapped[int | None] = mapped_column(ForeignKey("api_tokens.id"))
    request_id: Mapped[str | None] = mapped_column(String(128))
    created_at: Mapped[datetime] = mapped_column(Moment)
    finished_at: Mapped[datetime | None] = mapped_column(Moment)
    holder: Mapped[str | None] = mapped_column(String(40))
    """Which worker carries it out, until `leased_until`: then another one may."""
    leased_until: Mapped[datetime | None] = mapped_column(Moment)


class Operation(Base):
    """One action of an application: carried out as a whole or not at all, in the order of positions."""

    __tablename__ = "config_operations"
    __table_args__ = (UniqueConstraint("application_id", "position"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(primary_key=True)
    application_id: Mapped[int] = mapped_column(ForeignKey("config_applications.id"))
    position: Mapped[int]
    """From 0."""
    action: Mapped[str] = mapped_column(Text)
    """JSON of the plan's action, as it is shown: secrets are masked."""
    key_id: Mapped[str | None] = mapped_column(String(8))
    sealed: Mapped[bytes | None] = mapped_column(LargeBinary)
    """The action with its secrets; null once nothing can be made of it any more."""
    status: Mapped[str] = mapped_column(String(12))
    """An `OperationStatus`; changed by `move_operation` alone."""
    to_tell: Mapped[str | None] = mapped_column(Text)
    """JSON of a `ToTell` while it is carried out but for telling the edges; else null."""
    error: Mapped[str | None] = mapped_column(Text)
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    """How often it was begun: once, unless it failed or a worker ended in the middle of it."""
    started_at: Mapped[datetime | None] = mapped_column(Moment)
    finished_at: Mapped[datetime | None] = mapped_column(Moment)
    agreed: Mapped[str | None] = mapped_column(Text)
    """JSON list of the gates that the operation lowers with the consent of a second person; null: none."""
