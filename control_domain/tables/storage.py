"""Rows of settings of the storage."""

from datetime import datetime

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from control_domain.database.base import Base, UtcDateTime


class DataRetention(Base):
    """How long a kind of data is kept, once somebody has changed it. It holds for the installation."""

    __tablename__ = "data_retention"

    kind: Mapped[str] = mapped_column(String(30), primary_key=True)
    """A key of `stored_kinds.KINDS`."""
    days: Mapped[int]
    changed_at: Mapped[datetime] = mapped_column(UtcDateTime)
    changed_by_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
