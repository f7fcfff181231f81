"""Rows of sites and their goals."""

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from control_domain.database.base import Base, UtcDateTime


class Site(Base):
    """A website that is measured: its tracker ID (`public_id`), whose clock its days follow, where it is served."""

    __tablename__ = "sites"
    # The column store has the visits of those that were removed.
    __table_args__ = (UniqueConstraint("project_id", "name"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(primary_key=True)
    public_id: Mapped[str] = mapped_column(String(40), unique=True)
    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"))
    name: Mapped[str] = mapped_column(String(100))
    timezone: Mapped[str] = mapped_column(String(64))
    domains: Mapped[str] = mapped_column(Text)
    """A JSON list of origins, each as `pipeline_contracts.origins.normalize_origin` gives it."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Goal(Base):
    """What a site wants its visitors to do: send an event of this name, or view this path."""

    __tablename__ = "goals"
    __table_args__ = (
        UniqueConstraint("site_id", "name"),
        CheckConstraint("(event IS NULL) <> (path IS NULL)", name="ck_goals_one_target"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    site_id: Mapped[int] = mapped_column(ForeignKey("sites.id"))
    name: Mapped[str] = mapped_column(String(100))
    event: Mapped[str | None] = mapped_column(String(255))
    path: Mapped[str | None] = mapped_column(String(2048))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
