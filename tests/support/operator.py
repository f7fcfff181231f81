"""Runs operator actions by name on a test's database."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import func, select, text

from control_domain.accounts.operations import Caller, find_caller
from control_domain.database.engine import Sessions
from control_domain.refusals import Refused
from operator_actions.door import ACTIONS, Engines
from pipeline_contracts.credentials import digest_credential
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from tests.support.added_objects import ObjectAdder

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


@dataclass(slots=True)
class Operator:
    """The engines of operator actions."""

    engines: Engines

    @property
    def objects(self) -> ObjectAdder:
        return ObjectAdder(self.engines.sessions, self.engines.directory)

    async def act(self, action: str, *, at: datetime = NOW, **params: Any) -> Any:
        """Run an action; return its result."""
        return await ACTIONS[action](self.engines, {"operator": "ada", **params}, at)

    async def expect_refusal(self, action: str, **params: Any) -> str:
        """Return the message with which an action is refused."""
        with pytest.raises(Refused) as refusal:
            await self.act(action, **params)
        return str(refusal.value)

    async def add_account(self, slug: str, owner: str = "owner@example.com") -> dict[str, Any]:
        """Create an account and its owner, "Olga Owner"."""
        made: dict[str, Any] = await self.act(
            "accounts/create", name=slug.title(), slug=slug, owner_name="Olga Owner", owner_email=owner
        )
        return made

    async def read_audit_log(self) -> list[tuple[str, str]]:
        """Return action and subject of all audit entries, the oldest first."""
        entries = await self.act("audit/list", limit=1000)
        return [(entry["action"], entry["subject"]) for entry in reversed(entries)]

    async def count(self, table: Any) -> int:
        """Return the number of rows of a table."""
        async with self.engines.sessions() as session:
            return (await session.execute(select(func.count()).select_from(table))).scalar_one()

    async def caller(self, secret: str, at: datetime = NOW) -> Caller | None:
        """Return the caller whom a token authenticates."""
        async with self.engines.sessions() as session:
            return await find_caller(session, digest_credential(secret), at)

    async def check_references(self) -> None:
        """Check that no row refers to a deleted one. Postgres rejects such a deletion itself."""
        async with self.engines.sessions() as session:
            if session.get_bind().dialect.name == "sqlite":
                assert (await session.execute(text("PRAGMA foreign_key_check"))).all() == []


def make_operator(sessions: Sessions) -> Operator:
    """Return an operator with a key directory of its own."""
    return Operator(Engines(sessions, InProcessKeyDirectory()))
