"""Rows of variables: one row for each version, sealed as a whole."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, LargeBinary, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from control_domain.database.base import Base, UtcDateTime, partial_index
from pipeline_contracts.deploy_states import ChangeState

_IS_PENDING = f"state = {ChangeState.PENDING.value!r}"


class VariableSet(Base):
    """A version of all variables of an environment. The newest one is current; releases refer to their own."""

    __tablename__ = "variable_sets"
    __table_args__ = (UniqueConstraint("environment_id", "version"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(primary_key=True)
    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"))
    version: Mapped[int]
    """From 1 in each environment."""
    count: Mapped[int]
    key_id: Mapped[str] = mapped_column(String(8))
    """The key that sealed it."""
    sealed: Mapped[bytes] = mapped_column(LargeBinary)
    set_by_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class VariableChange(Base):
    """New variables that wait for approval, and the decision."""

    __tablename__ = "variable_changes"
    __table_args__ = (
        Index("ix_variable_changes_environment_id", "environment_id", "id"),
        partial_index("uq_variable_changes_pending", "environment_id", condition=_IS_PENDING, unique=True),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"))
    state: Mapped[str] = mapped_column(String(12))
    """A `ChangeState`."""
    count: Mapped[int]
    key_id: Mapped[str | None] = mapped_column(String(8))
    sealed: Mapped[bytes | None] = mapped_column(LargeBinary)
    """Null after the decision."""
    asked_by_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    decided_by_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    decided_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class ProtectedVariable(Base):
    """The name of a variable that is not copied to previews."""

    __tablename__ = "protected_variables"

    environment_id: Mapped[int] = mapped_column(
        ForeignKey("environments.id"), primary_key=True, autoincrement=False
    )
    name: Mapped[str] = mapped_column(String(255), primary_key=True)
