"""The declarative base of all tables, and the column types and indexes that both databases share."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import DateTime, Dialect, Index, MetaData, TypeDecorator, text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import DeclarativeBase
from sqlalchemy.schema import CreateIndex
from sqlalchemy.sql.compiler import DDLCompiler

# Names of constraints are part of the schema: a later migration has to be able to name them.
_NAMING = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """Declarative base of all tables of the control plane."""

    metadata = MetaData(naming_convention=_NAMING)


class UtcDateTime(TypeDecorator[datetime]):
    """A time with a zone, read as UTC. Converts to UTC on writes, because SQLite stores no zone.

    Raises `ValueError` for a time without a zone, which Postgres and SQLite would interpret differently.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a time needs its zone")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def partial_index(name: str, *columns: str, condition: str, unique: bool = False) -> Index:
    """Return an index of the rows that satisfy `condition` (SQL), on both databases."""
    # Without `postgresql_where`: SQLAlchemy would import that dialect, 80 ms of CPU at each start on SQLite.
    return Index(name, *columns, unique=unique, sqlite_where=text(condition))


@compiles(CreateIndex, "postgresql")
def _create_index(create: CreateIndex, compiler: DDLCompiler, **options: Any) -> str:
    statement: str = compiler.visit_create_index(create, **options)  # type: ignore[no-untyped-call]
    options_of = create.element.dialect_options
    # Migrations give the condition to both databases.
    if options_of["postgresql"]["where"] is not None or options_of["sqlite"]["where"] is None:
        return statement
    return f"{statement} WHERE {options_of['sqlite']['where']}"
