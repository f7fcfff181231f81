"""People as an operator handles them: let into an account, listed, given another role, taken out."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from control_domain.accounts.describe import describe_member
from control_domain.accounts.members import (
    Member,
    add_member,
    change_role,
    list_members,
    lock_member,
    remove_member,
)
from control_domain.audit import make_operator, record_audit_entry
from control_domain.projects.resolve import resolve_account
from control_domain.slugs import read_name
from operator_actions.actions.accounts import known_as
from operator_actions.actions.engines import Action, Engines, Params
from operator_actions.actions.read_account import read_email, read_role
from operator_actions.actions.refuse_problems import refuse_problems


async def _list_people(engines: Engines, params: Params, now: datetime) -> Sequence[dict[str, Any]]:
    """Who is in the account, or everybody with each of their accounts. `params`: account_id."""
    called = params.get("account_id")
    async with engines.sessions() as session:
        account = None if called is None else await resolve_account(session, called)
        return [describe_member(member) for member in await list_members(session, account)]


async def _add_person(engines: Engines, params: Params, now: datetime) -> dict[str, Any]:
    """Let somebody into an account, who may be known from another. `params`: email, name (not needed then), role
    (member), account_id."""
    email, role = read_email(params, "email"), read_role(params, "member")
    name = None if params.get("name") is None else read_name(params)
    async with engines.sessions() as session, session.begin():
        account = await resolve_account(session, params.get("account_id"))
        person = await add_member(session, account, email, name, role, now)
        subject = f"person {person.public_id}"
        record_audit_entry(
            session, make_operator(params), account.id, "person.add", subject, now, {"role": role}
        )
    told = describe_member(Member(person, account, role))
    return told if name in (None, person.name) else {**told, "warning": known_as(email, person.name)}


async def _set_role(engines: Engines, params: Params, now: datetime) -> dict[str, Any]:
    """Another role in an account; the same one changes nothing. `params`: email, role, account_id."""
    role = read_role(params)
    async with engines.sessions() as session, session.begin():
        account = await resolve_account(session, params.get("account_id"))
        member = await lock_member(session, account, str(params["email"]))
        if member.role != role:
            with refuse_problems("", ""):
                await change_role(session, member, role, now)
            subject, details = f"person {member.person.public_id}", {"from": member.role, "to": role}
            record_audit_entry(
                session, make_operator(params), account.id, "person.role", subject, now, details
            )
    return describe_member(member._replace(role=role))


async def _remove_person(engines: Engines, params: Params, now: datetime) -> dict[str, Any]:
    """Take somebody out of an account, with all that they have in it. `params`: email, account_id."""
    async with engines.sessions() as session, session.begin():
        account = await resolve_account(session, params.get("account_id"))
        member = await lock_member(session, account, str(params["email"]))
        with refuse_problems("", ""):
            left = await remove_member(session, member, now)
        subject = f"person {member.person.public_id}"
        details = {"role": member.role, "project_roles": left.project_roles, "tokens": left.tokens}
        record_audit_entry(session, make_operator(params), account.id, "person.remove", subject, now, details)
    ended = {"project_roles_removed": left.project_roles, "tokens_revoked": left.tokens}
    return {**describe_member(member), "removed": True, **ended}


ACTIONS: Mapping[str, Action] = {
    "people/list": _list_people,
    "people/add": _add_person,
    "people/role": _set_role,
    "people/remove": _remove_person,
}
