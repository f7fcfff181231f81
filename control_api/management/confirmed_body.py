"""Bodies with the caller's own password, for requests that must fail on somebody else's unlocked computer."""

from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from msgspec import Meta, Struct

from control_api.management.sign_in import read_origin
from control_api.operations.access import At
from control_api.operations.bodies import BODY_ATTRIBUTE, json_body
from control_domain.sign_in.change_password import confirm_password


class WithOwnPassword(Struct, kw_only=True):
    """A body with the caller's own password."""

    password: Annotated[
        Annotated[str, Meta(max_length=1000)] | None,
        Meta(
            description="Your present password. Required for a request with a session. If you have "
            "no password, you must have signed in within 10 minutes."
        ),
    ] = None


B = TypeVar("B", bound=WithOwnPassword)


def confirmed_body(access: Any, model: type[B], *, is_optional: bool = False) -> Any:
    """Return the dependency that yields the body as `model`, after its password was checked if the request has a
    session. An API token needs none. `access`: the dependency of the operation's `At`.

    The dependency runs before the handler because it commits, and the handler's transaction claims the idempotency
    key.
    """
    body = json_body(model, is_optional=is_optional)

    async def read(request: Request, at: At[Any] = access, read_body: B = body) -> B:
        if at.caller.session_id is not None:
            hasher, network = request.app.state.password_hasher, read_origin(request).network
            await confirm_password(at.session, hasher, at.caller, read_body.password, network, at.now)
        return read_body

    setattr(read, BODY_ATTRIBUTE, (model, is_optional))
    return Depends(read)
