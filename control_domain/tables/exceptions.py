"""Rows of people's decisions about groups of exceptions. The exceptions themselves are in the column store."""

from datetime import datetime

from sqlalchemy import ForeignKey, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from control_domain.database.base import Base, UtcDateTime


class ExceptionStatus(Base):
    """The status and the assignee of a group of exceptions. A group without a row is open and has no assignee."""

    __tablename__ = "exception_statuses"
    __table_args__ = (UniqueConstraint("environment_id", "group_id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"))
    group_id: Mapped[str] = mapped_column(String(16))
    """16 hexadecimal digits."""
    status: Mapped[str] = mapped_column(String(10))
    """open, resolved or ignored. A resolved group may have regressed: see `control_domain/telemetry/regressions.py`."""
    assignee_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    resolved_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """Set while the status is resolved."""
    changed_at: Mapped[datetime] = mapped_column(UtcDateTime)
