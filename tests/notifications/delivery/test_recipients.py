"""The recipients that still get a notification when it is sent."""

from typing import Any

import pytest
from sqlalchemy import delete, update

from control_domain.tables.accounts import Membership, Person
from control_domain.tables.notifications import NotificationChannel
from control_domain.tables.projects import ProjectRole
from tests.support.deliveries import Deliveries
from tests.support.managed_project import NOW

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


async def _add_person(deliveries: Deliveries, name: str, role: str, project_role: str | None) -> int:
    person = Person(public_id=f"per_{name}", name=name, email=f"{name}@acme.example", created_at=NOW)
    async with deliveries.sessions() as session, session.begin():
        session.add(person)
        await session.flush()
        session.add(Membership(account_id=deliveries.acme.account.id, person_id=person.id, role=role))
        if project_role is not None:
            session.add(
                ProjectRole(project_id=deliveries.acme.project.id, person_id=person.id, role=project_role)
            )
    return person.id


async def test_people_get_only_notifications_that_they_may_see(deliveries: Deliveries) -> None:
    project = {"project_id": deliveries.acme.project.id}
    removed = {"project_id": 99}
    platform: dict[str, Any] = {"project_id": None}
    left = "The person is no longer a member of the account."
    no_role = "The person no longer has a role in the project."
    no_admin = "The person is no longer an owner or admin of the account."
    cases: list[tuple[str, str | None, dict[str, Any], str | None]] = [
        ("owner", None, project, None),
        ("owner", None, removed, None),
        ("owner", None, platform, None),
        ("admin", None, platform, None),
        ("member", "viewer", project, None),
        ("member", "viewer", removed, no_role),
        ("member", "maintainer", platform, no_admin),
        ("member", None, project, no_role),
        ("left", None, project, left),
    ]
    messages = []
    for number, (role, project_role, about, _) in enumerate(cases):
        person = await _add_person(deliveries, f"p{number}", role, project_role)
        messages.append(await deliveries.write(person_id=person, **about))
    async with deliveries.sessions() as session, session.begin():
        await session.execute(delete(Membership).where(Membership.role == "left"))
    await deliveries.deliver()
    for number, (message, (_, _, _, reason)) in enumerate(zip(messages, cases, strict=True)):
        row = await deliveries.read(message)
        assert (row.status, row.last_error) == ("sent" if reason is None else "canceled", reason), number
        assert deliveries.receivers.of(f"p{number}@acme.example") == ([message] if reason is None else [])
        assert len(await deliveries.read_attempts(message)) == (reason is None)


async def test_a_person_in_another_account_of_theirs(deliveries: Deliveries) -> None:
    """A membership elsewhere does not count."""
    person = await _add_person(deliveries, "ann", "owner", None)
    other = await deliveries.add_account("other")
    message = await deliveries.write(person_id=person, account_id=other.id)
    await deliveries.deliver()
    assert (await deliveries.read(message)).status == "canceled"


async def test_channels_that_are_off_or_removed(deliveries: Deliveries) -> None:
    off, removed = await deliveries.add_channel("off"), await deliveries.add_channel("removed")
    messages = [await deliveries.write(channel, group=1) for channel in (off, removed) for _ in range(2)]
    async with deliveries.sessions() as session, session.begin():
        await session.execute(
            update(NotificationChannel).where(NotificationChannel.id == off.id).values(enabled=False)
        )
        await session.execute(delete(NotificationChannel).where(NotificationChannel.id == removed.id))
    assert await deliveries.deliver() == 0
    rows = [await deliveries.read(message) for message in messages]
    assert [(row.status, row.last_error) for row in rows] == [
        *[("canceled", "The channel is turned off.")] * 2,
        *[("canceled", "The channel was removed.")] * 2,
    ]
    assert deliveries.receivers.requests == []


async def test_a_message_that_is_canceled_while_it_is_sent(deliveries: Deliveries) -> None:
    channel = await deliveries.add_channel("hook")
    first, second = [await deliveries.write(channel) for _ in range(2)]

    async def answer(message: object) -> None:
        await deliveries.change(first, status="canceled", last_error="The channel was removed.")

    deliveries.receivers.answers["hook"] = answer
    await deliveries.deliver()
    row = await deliveries.read(first)
    assert (row.status, row.last_error, row.leased_until) == ("canceled", "The channel was removed.", None)
    assert await deliveries.read_attempts(first) == []
    # The next message does not wait for the end of that lease.
    assert (await deliveries.read(second)).status == "sent"
