"""Runs the operator's requests that concern all accounts."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from control_domain.audit import Actor, make_operator
from control_domain.database.engine import Sessions
from control_domain.operators.accounts import (
    create_account_with_owner,
    describe_account,
    limit_account,
    list_accounts,
)
from control_domain.operators.rotate_key import run_rotation_round
from control_domain.operators.sign_in_links import create_sign_in_link
from control_domain.operators.tokens import create_first_token
from control_domain.published_keys import republish_account
from control_domain.sealing import SealingKeys
from control_domain.sign_in.links import make_sign_in_url
from pipeline_contracts.errors import Conflict, InvalidInput, Problem, StorageUnavailable
from pipeline_contracts.operator_requests import (
    CreateAccount,
    CreateSignInLink,
    CreateToken,
    LimitAccount,
    ListAccounts,
    OperatorCall,
    RotateKey,
)
from pipeline_contracts.rate_limits import RateLimit
from storage_backends.key_directory.interface import KeyDirectory


@dataclass(frozen=True, slots=True)
class OperatorEngines:
    """The engines of the requests."""

    sessions: Sessions
    directory: KeyDirectory | None
    """None if Redis is not configured: the control plane publishes changes within a minute."""
    sealing_keys: SealingKeys | None
    """None if PHAROS_VARIABLES_KEY is not set."""
    address: str = ""
    """The address of the dashboard, `https://pharos.example`; empty if PHAROS_PUBLIC_URL is not set."""


async def answer_operator_call(engines: OperatorEngines, body: bytes, now: datetime) -> tuple[int, bytes]:
    """Run the `OperatorCall` in a body in one transaction. Return the status and the JSON document of the response: its
    `data` and perhaps a `warning`, or a problem document.

    Raises the errors of the database.
    """
    try:
        call = msgspec.json.decode(body, type=OperatorCall)
    except msgspec.DecodeError as error:
        return _problem(InvalidInput(f"This version does not understand the request: {error}"))
    actor = make_operator(call.operator)
    try:
        if isinstance(call.request, LimitAccount):
            document = await _limit_account(engines, call.request, actor, now)
        else:
            document = {"data": await _run(engines, call, actor, now)}
    except Problem as problem:
        return _problem(problem)
    return 200, msgspec.json.encode(document)


def _problem(problem: Problem) -> tuple[int, bytes]:
    return problem.status, msgspec.json.encode(problem.to_document())


async def _run(engines: OperatorEngines, call: OperatorCall, actor: Actor, now: datetime) -> Any:
    async with engines.sessions() as session, session.begin():
        match call.request:
            case ListAccounts():
                return await list_accounts(session)
            case CreateAccount(name=name, slug=slug, owner_name=owner_name, owner_email=owner_email):
                return await create_account_with_owner(
                    session,
                    name=name,
                    slug=slug,
                    owner_name=owner_name,
                    owner_email=owner_email,
                    actor=actor,
                    now=now,
                )
            case CreateToken() as request:
                seconds = request.lifetime_seconds
                return await create_first_token(
                    session,
                    account=request.account,
                    person=request.person,
                    scopes=request.scopes,
                    name=request.name,
                    lifetime=None if seconds is None else timedelta(seconds=seconds),
                    actor=actor,
                    now=now,
                )
            case CreateSignInLink(email=email):
                link = await create_sign_in_link(session, email, actor, now)
                return {**link, "url": make_sign_in_url(engines.address, link["link"])}
            case RotateKey():
                if engines.sealing_keys is None:
                    raise Conflict("Set PHAROS_VARIABLES_KEY as well: variables are sealed with it.")
                return await run_rotation_round(session, engines.sealing_keys, actor, now)
    raise AssertionError(f"no such request: {call.request}")


async def _limit_account(
    engines: OperatorEngines, request: LimitAccount, actor: Actor, now: datetime
) -> Mapping[str, Any]:
    limit = RateLimit(request.rate, request.burst)
    async with engines.sessions() as session, session.begin():
        account = await limit_account(session, request.account, limit, actor, now)
        document = {"data": describe_account(account)}
    if engines.directory is None:
        return {
            **document,
            "warning": "The edges follow within a minute, as PHAROS_REDIS_URL is not set here.",
        }
    try:
        await republish_account(engines.sessions, engines.directory, account.id, now)
    except StorageUnavailable as error:
        warning = f"The edges could not be informed: {error} They follow within a minute after Redis is back."
        return {**document, "warning": warning}
    return document
