"""Rows of recorded deployments."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from control_domain.database.base import Base, UtcDateTime


class RecordedDeployment(Base):
    """A deployment as it was first reported. Later reports with the same ID change nothing."""

    __tablename__ = "recorded_deployments"
    __table_args__ = (
        UniqueConstraint("environment_id", "deployment_id"),
        Index("ix_recorded_deployments_deployed_at", "environment_id", "deployed_at"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"))
    deployment_id: Mapped[str] = mapped_column(String(36))
    version: Mapped[str] = mapped_column(String(128))
    service: Mapped[str | None] = mapped_column(String(100))
    service_namespace: Mapped[str | None] = mapped_column(String(100))
    commit_sha: Mapped[str | None] = mapped_column(String(64))
    note: Mapped[str | None] = mapped_column(String(1000))
    deployed_at: Mapped[datetime] = mapped_column(UtcDateTime)
    recorded_at: Mapped[datetime] = mapped_column(UtcDateTime)
