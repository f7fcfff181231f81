"""The audit log as an operator reads it, on both databases."""

import pytest
from sqlalchemy import select

from control_domain.audit import Actor, record_audit_entry
from control_domain.database.engine import Sessions
from control_domain.tables.accounts import Account
from tests.support.operator import NOW, Operator, make_operator


@pytest.fixture
def operator(sessions: Sessions) -> Operator:
    return make_operator(sessions)


async def test_the_newest_entries_come_first(operator: Operator) -> None:
    await operator.add_account("beta")
    for name in ("Shop", "Blog", "Wiki"):
        await operator.act("projects/create", name=name)
    entries = await operator.act("audit/list", limit=2)
    assert [one["details"]["slug"] for one in entries] == ["wiki", "blog"]
    assert len(await operator.act("audit/list")) == 4
    for limit in (0, -1, 1001):
        assert await operator.expect_refusal("audit/list", limit=limit) == (
            f"{limit} entries cannot be shown: ask for 1 to 1,000 with --limit."
        )


@pytest.mark.both_databases
async def test_entries_of_a_subject(operator: Operator) -> None:
    """By its kind and ID, or by the ID alone; not of others whose ID begins or ends alike."""
    await operator.add_account("beta")
    async with operator.engines.sessions() as session, session.begin():
        account = (await session.execute(select(Account))).scalar_one()
        for subject in ("deployment 7", "deployment 17", "deployment 70", "token 7", "project prj_7"):
            record_audit_entry(session, Actor("10.0.0.1"), account.id, "x", subject, NOW)
    for subject, found in (
        ("deployment 7", ["deployment 7"]),
        ("7", ["token 7", "deployment 7"]),
        ("prj_7", ["project prj_7"]),
        ("prj%7", []),
        ("deployment", []),
    ):
        entries = await operator.act("audit/list", subject=subject)
        assert [one["subject"] for one in entries] == found, subject
