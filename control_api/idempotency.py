"""`Idempotency-Key`: a repeated request gets the stored response of the first one and changes nothing."""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
from fastapi import Request, Response
from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.statements import insert_if_absent
from control_domain.tables.idempotency import RETENTION, IdempotentResponse
from pipeline_contracts.errors import FieldError, InvalidInput, Unavailable

_HEADER = "Idempotency-Key"
_MAX_KEY_CHARACTERS = 255

RouteResponse = tuple[int, dict[str, Any]]
"""Status and JSON document of a response."""


async def respond_idempotently(
    request: Request,
    session: AsyncSession,
    caller: str,
    body: bytes,
    make: Callable[[], Awaitable[RouteResponse]],
) -> Response:
    """Return the response of `make`, or the stored response of the first request with the same `Idempotency-Key`.

    A response is stored for 24 hours, in the transaction of `make`: both are committed or neither. Of concurrent
    requests with one key the first calls `make`, and the others wait for it. An error changes nothing and is not
    stored. Without a key `make` is called each time.

    `caller` identifies who chose the key; keys of different callers are independent. Raises `InvalidInput` for an
    invalid key or one that was used for another request, and the exceptions of `make`.
    """
    keys = request.headers.getlist(_HEADER)
    if not keys:
        status, document = await make()
        return _json_response(status, orjson.dumps(document))
    key = _check_key(keys)
    now = datetime.now(UTC)
    digest = hashlib.sha256(f"{request.method} {request.url.path}\0".encode() + body).digest()
    if not await _claim_key(session, caller, key, digest, now):
        return await _stored_response(session, caller, key, digest)
    status, document = await make()
    content = orjson.dumps(document)
    row = (IdempotentResponse.caller == caller) & (IdempotentResponse.key == key)
    await session.execute(update(IdempotentResponse).where(row).values(status=status, body=content))
    return _json_response(status, content)


def _check_key(keys: Sequence[str]) -> str:
    if len(keys) > 1:
        raise _invalid_key("must be given once")
    [key] = keys
    if not (1 <= len(key) <= _MAX_KEY_CHARACTERS and key.isascii() and key.isprintable()):
        raise _invalid_key(f"must be 1 to {_MAX_KEY_CHARACTERS} printable ASCII characters")
    return key


def _invalid_key(message: str) -> InvalidInput:
    return InvalidInput(
        "Nothing was done. Fix the header and send the request again.", errors=[FieldError(_HEADER, message)]
    )


async def _claim_key(session: AsyncSession, caller: str, key: str, digest: bytes, now: datetime) -> bool:
    """Return True if this is the first request with the key."""
    # Deletes this key only: a busy caller has tens of thousands, which `forget_old` deletes.
    row = (IdempotentResponse.caller == caller) & (IdempotentResponse.key == key)
    await session.execute(
        delete(IdempotentResponse).where(row, IdempotentResponse.created_at < now - RETENTION)
    )
    values = {"caller": caller, "key": key, "request_digest": digest, "created_at": now}
    claimed = insert_if_absent(session, IdempotentResponse, values).returning(IdempotentResponse.key)
    return (await session.execute(claimed)).scalar_one_or_none() is not None


async def _stored_response(session: AsyncSession, caller: str, key: str, digest: bytes) -> Response:
    query = select(IdempotentResponse).where(
        IdempotentResponse.caller == caller, IdempotentResponse.key == key
    )
    row = (await session.execute(query)).scalar_one_or_none()
    if row is None:
        # `forget_old` deleted the row after `_claim_key` had found it.
        raise Unavailable("The idempotency key is expiring. Send the same request again.")
    if row.request_digest != digest:
        raise _invalid_key("was used for another request; choose a new one for each")
    response = _json_response(row.status or 200, row.body or b"")
    response.headers["Idempotent-Replayed"] = "true"
    return response


def _json_response(status: int, content: bytes) -> Response:
    return Response(content, status, media_type="application/json")
