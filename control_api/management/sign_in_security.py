"""How the person signs in: `/v1/me/password` and `/v1/me/second-factor`."""

import io
from typing import Annotated

from msgspec import Meta, Struct

from control_api.management.sign_in import read_origin, set_cookie_of
from control_api.operations.access import At, at_session
from control_api.operations.bodies import json_body
from control_api.operations.router import OperationRouter
from control_domain.sign_in.attempt_limits import count_attempt, find_code_limits, take_back_attempt
from control_domain.sign_in.change_password import change_password, confirm_identity, confirm_password
from control_domain.sign_in.describe import (
    BegunSecondFactor,
    ConfirmedSecondFactor,
    CurrentSession,
    SecondFactorState,
    describe_current_session,
)
from control_domain.sign_in.record import record_of_person
from control_domain.sign_in.second_factor import (
    begin_second_factor,
    confirm_second_factor,
    has_second_factor,
    remove_second_factor,
)
from control_domain.sign_in.sessions import renew_secret
from control_domain.sign_in.totp import make_totp_url
from control_domain.tables.sign_in import SignInSession
from pipeline_contracts.errors import Conflict

operations = OperationRouter("Sign-in")

_Session = Annotated[At[SignInSession], at_session()]
_ISSUER = "Pharos"

_PresentPassword = Annotated[
    Annotated[str, Meta(max_length=1000)] | None,
    Meta(description="The present password. Required for a person who has one."),
]


_CodeWithoutPassword = Annotated[
    Annotated[str, Meta(max_length=100)] | None,
    Meta(
        description="A code of the second factor. Required for a person who has a second factor and no password."
    ),
]


class ChangePassword(Struct, kw_only=True):
    """The present password, and a new one."""

    password: Annotated[str, Meta(max_length=1000, description="The new password, 12 to 200 characters.")]
    current_password: _PresentPassword = None
    code: _CodeWithoutPassword = None
    revoke_tokens: Annotated[
        bool, Meta(description="True to revoke your API tokens in all of your accounts as well.")
    ] = False


class WithPassword(Struct, kw_only=True):
    """The present password, so that nobody can change how the person signs in on the person's unlocked computer."""

    password: _PresentPassword = None


class RemoveSecondFactor(WithPassword, kw_only=True):
    """The present password; for a person without one, a code."""

    code: _CodeWithoutPassword = None


class ConfirmSecondFactor(Struct, kw_only=True):
    """A code that the authenticator shows."""

    code: Annotated[str, Meta(max_length=100, description="Six digits.", examples=["123456"])]


@operations.put("/v1/me/password", problems=[Conflict])
async def change_own_password(
    at: _Session, body: Annotated[ChangePassword, json_body(ChangePassword)]
) -> CurrentSession:
    """Change your password.

    Ends all of your other sessions; your API tokens keep working unless `revoke_tokens` is true. A person without a
    password sets a first one within 10 minutes after signing in.
    """
    secret = await change_password(
        at.session,
        at.request.app.state.password_hasher,
        at.sealing_keys,
        at.caller,
        body.current_password,
        body.code,
        body.password,
        read_origin(at.request).network,
        at.actor,
        at.now,
        revokes_tokens=body.revoke_tokens,
    )
    await at.end_transaction()
    set_cookie_of(at.request, secret)
    return await describe_current_session(at.session, at.caller, at.found)


@operations.get("/v1/me/second-factor")
async def read_second_factor(at: _Session) -> SecondFactorState:
    """Read whether sign-in requires a code."""
    return {"second_factor": await has_second_factor(at.session, at.caller.person.id)}


@operations.post("/v1/me/second-factor", status=201, problems=[Conflict], idempotency=False)
async def begin_own_second_factor(
    at: _Session, body: Annotated[WithPassword, json_body(WithPassword)]
) -> BegunSecondFactor:
    """Begin to set up a second factor.

    Returns a secret for an authenticator (TOTP, RFC 6238). Sign-in requires codes only after you have confirmed it
    with a code.
    """
    await _confirm_password(at, body)
    secret = await begin_second_factor(at.session, at.sealing_keys, at.caller.person, at.now)
    url = make_totp_url(secret, at.caller.person.email, _ISSUER)
    return {"secret": secret, "otpauth_url": url, "qr_code": _draw_qr_code(url)}


@operations.post("/v1/me/second-factor/confirm", problems=[Conflict], idempotency=False)
async def confirm_own_second_factor(
    at: _Session, body: Annotated[ConfirmSecondFactor, json_body(ConfirmSecondFactor)]
) -> ConfirmedSecondFactor:
    """Turn the second factor on.

    Takes a code that the authenticator shows, and returns recovery codes. From now on sign-in requires a code.
    """
    limits = await find_code_limits(at.session, at.caller.person.email, read_origin(at.request).network)
    attempts = await count_attempt(at.session, limits, at.now)
    await at.end_transaction()
    codes = await confirm_second_factor(at.session, at.sealing_keys, at.caller.person, body.code, at.now)
    await take_back_attempt(at.session, attempts)
    await _finish_change(at, "second-factor.enable")
    return {"recovery_codes": codes}


@operations.post("/v1/me/second-factor/remove", idempotency=False, problems=[Conflict])
async def remove_own_second_factor(
    at: _Session, body: Annotated[RemoveSecondFactor, json_body(RemoveSecondFactor)]
) -> SecondFactorState:
    """Remove the second factor, with its recovery codes."""
    hasher, network = at.request.app.state.password_hasher, read_origin(at.request).network
    await confirm_identity(
        at.session, hasher, at.sealing_keys, at.caller, body.password, body.code, network, at.now
    )
    if await remove_second_factor(at.session, at.caller.person.id):
        await _finish_change(at, "second-factor.disable")
    return {"second_factor": False}


async def _confirm_password(at: At[SignInSession], body: WithPassword) -> None:
    hasher, network = at.request.app.state.password_hasher, read_origin(at.request).network
    await confirm_password(at.session, hasher, at.caller, body.password, network, at.now)


async def _finish_change(at: At[SignInSession], action: str) -> None:
    """Record the change, commit it, and give the session another secret."""
    await record_of_person(at.session, at.actor, at.caller.person, action, at.now)
    secret = await renew_secret(at.session, at.found.id, at.now)
    await at.end_transaction()
    set_cookie_of(at.request, secret)


def _draw_qr_code(text: str) -> str:
    """Return an SVG image, dark on white with the quiet zone that scanners need."""
    # Imported here because most installations never draw a QR code.
    import segno

    image = io.BytesIO()
    segno.make(text, error="m", micro=False).save(
        image, kind="svg", xmldecl=False, svgns=True, scale=4, border=4, light="#fff", omitsize=True
    )
    return image.getvalue().decode()
