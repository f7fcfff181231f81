"""The browsers in which the person is signed in: `/v1/sessions`."""

from typing import Annotated

from control_api.operations.access import At, at_session
from control_api.operations.router import OperationRouter
from control_domain.sign_in.describe import EndedSessions, SessionDocument, describe_session
from control_domain.sign_in.record import record_of_person
from control_domain.sign_in.sessions import list_sessions, revoke_sessions
from control_domain.sign_in.sign_in import end_session
from control_domain.tables.sign_in import SignInSession
from pipeline_contracts.errors import NotFound

operations = OperationRouter("Sign-in")

_Session = Annotated[At[SignInSession], at_session()]


@operations.get("/v1/sessions")
async def list_own_sessions(at: _Session) -> list[SessionDocument]:
    """List your sessions.

    The browsers in which you are signed in, the newest first: at most 50, in all of your accounts.
    """
    return [
        describe_session(each, at.caller, at.now)
        for each in await list_sessions(at.session, at.caller.person.id, at.now)
    ]


@operations.delete("/v1/sessions/{session}")
async def end_own_session(at: _Session) -> EndedSessions:
    """End one of your sessions.

    The browser is signed out with its next request. 404 for a session that is not yours or has ended.
    """
    number = at.number("session")
    if number is None or not await end_session(at.session, at.caller, number, at.actor, at.now):
        raise NotFound("You have no such session, or it has ended.")
    return {"ended": 1}


@operations.delete("/v1/sessions")
async def end_other_sessions(at: _Session) -> EndedSessions:
    """End all of your sessions but this one."""
    ended = await revoke_sessions(at.session, at.caller.person.id, at.now, but=at.found.id)
    if ended:
        details = {"person": at.caller.person.public_id, "ended_sessions": ended}
        await record_of_person(
            at.session, at.actor, at.caller.person, "session.revoke-others", at.now, details
        )
    return {"ended": ended}
