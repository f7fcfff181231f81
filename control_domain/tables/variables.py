"""Rows of variables: one row for each version, sealed as a whole; and of changes that wait for a second person."""

from datetime import datetime
from enum import StrEnum

from sqlalchemy import (
    ColumnElement,
    ForeignKey,
    Index,
    LargeBinary,
    String,
    Text,
    UniqueConstraint,
    false,
    literal_column,
)
from sqlalchemy.orm import Mapped, mapped_column

from control_domain.database.base import Base, UtcDateTime, partial_index
from pipeline_contracts.deploy_states import ChangeState


class ChangeKind(StrEnum):
    """What a `VariableChange` does once it is approved."""

    REPLACE = "replace"
    """Replace all variables."""
    UPDATE = "update"
    """Set and remove some variables, and keep the others."""
    UNPROTECT = "unprotect"
    """Copy variables to previews again."""


_PENDING_PART = "pending-part"
"""The state of a pending change that does not replace all variables. An earlier version of the control plane, which may
still run during an upgrade, knows only replacements: it does not find this state, and refuses to decide on it."""
_PENDING_STATES = (ChangeState.PENDING.value, _PENDING_PART)


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
    is_update: Mapped[bool] = mapped_column(server_default=false())
    """True if it keeps variables of the version before it, so that the author of that version counts too."""


class VariableChange(Base):
    """A change of variables that waits for approval, and the decision."""

    __tablename__ = "variable_changes"
    __table_args__ = (
        Index("ix_variable_changes_environment_id", "environment_id", "id"),
        partial_index(
            "ix_variable_changes_pending", "environment_id", "id", condition=f"state IN {_PENDING_STATES}"
        ),
        # A newer replacement supersedes the pending one; other changes wait side by side.
        partial_index(
            "uq_variable_changes_pending",
            "environment_id",
            condition=f"state = {ChangeState.PENDING.value!r}",
            unique=True,
        ),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"))
    state: Mapped[str] = mapped_column(String(12))
    """A `ChangeState` or `_PENDING_PART`: read it as `current_state`, and select by `is_pending`."""
    count: Mapped[int]
    """The number of variables that it sets, or of names that it unprotects."""
    key_id: Mapped[str | None] = mapped_column(String(8))
    sealed: Mapped[bytes | None] = mapped_column(LargeBinary)
    """The variables that it sets. Null after the decision, and if it sets none."""
    asked_by_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    decided_by_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    decided_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    kind: Mapped[str] = mapped_column(String(12), server_default=ChangeKind.REPLACE.value)
    """A `ChangeKind`."""
    names: Mapped[str | None] = mapped_column(Text)
    """JSON of `ChangedNames`; null for a replacement, whose names are sealed with the values."""

    @property
    def current_state(self) -> ChangeState:
        return ChangeState.PENDING if self.state == _PENDING_PART else ChangeState(self.state)

    @staticmethod
    def pending_state(kind: ChangeKind) -> str:
        """Return the `state` of a new change of this kind."""
        return ChangeState.PENDING.value if kind is ChangeKind.REPLACE else _PENDING_PART

    @classmethod
    def is_pending(cls) -> ColumnElement[bool]:
        """Return the condition, with literals for the partial index."""
        return cls.state.in_([literal_column(f"'{state}'") for state in _PENDING_STATES])


class ProtectedVariable(Base):
    """The name of a variable that is not copied to previews."""

    __tablename__ = "protected_variables"

    environment_id: Mapped[int] = mapped_column(
        ForeignKey("environments.id"), primary_key=True, autoincrement=False
    )
    name: Mapped[str] = mapped_column(String(255), primary_key=True)
