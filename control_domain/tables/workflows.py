"""Rows of workflow documents, one per version."""

from datetime import datetime

from sqlalchemy import ForeignKey, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from control_domain.database.base import Base, UtcDateTime


class Workflow(Base):
    """A version of a project's workflow document. The newest one is in force; a release stores the document that it was
    built with."""

    __tablename__ = "workflows"
    __table_args__ = (UniqueConstraint("project_id", "version"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"))
    version: Mapped[int]
    """From 1 in each project."""
    text: Mapped[str] = mapped_column(Text)
    """YAML as submitted."""
    set_by_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
