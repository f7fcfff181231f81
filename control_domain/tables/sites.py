"""Rows of sites, their goals, and links to their reports."""

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, LargeBinary, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from control_domain.database.base import Base, UtcDateTime


class Site(Base):
    """A measured website: its tracker ID (`public_id`), the time zone of its days, and its domains."""

    __tablename__ = "sites"
    # IDs are not reused: the column store keeps the visits of removed sites.
    __table_args__ = (UniqueConstraint("project_id", "name"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(primary_key=True)
    public_id: Mapped[str] = mapped_column(String(40), unique=True)
    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"))
    name: Mapped[str] = mapped_column(String(100))
    timezone: Mapped[str] = mapped_column(String(64))
    domains: Mapped[str] = mapped_column(Text)
    """JSON list of origins, normalised by `pipeline_contracts.origins.normalize_origin`."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Goal(Base):
    """A goal of a site: visitors send an event of this name, or view this path."""

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


class ReportShare(Base):
    """A link by which anybody may read the report of a site: the digest of its secret."""

    __tablename__ = "report_shares"
    __table_args__ = (
        Index("ix_report_shares_site_id", "site_id", "id"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    site_id: Mapped[int] = mapped_column(ForeignKey("sites.id"))
    name: Mapped[str] = mapped_column(String(100))
    digest: Mapped[bytes] = mapped_column(LargeBinary(32), unique=True)
    created_by_id: Mapped[int] = mapped_column(ForeignKey("people.id"))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
