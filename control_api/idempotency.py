"""`Idempotency-Key`: a request that is sent again is answered as the first time, and nothing is done twice."""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
from fastapi import Request, Response
from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.engine import insert_unless_there
from control_domain.tables.idempotency import RETENTION, IdempotentAnswer
from pipeline_contracts.errors import FieldError, InvalidInput, Unavailable

_HEADER = "Idempotency-Key"
_LONGEST = 255

Answer = tuple[int, dict[str, Any]]
"""Status and document."""


async def answer_once(
    request: Request, session: AsyncSession, caller: str, body: bytes, make: Callable[[], Awaitable[Answer]]
) -> Response:
    """The answer of `make`, or the first answer to this caller's key, if the request has one, of the last 24 hours.

    It is kept in the transaction of the work itself: there is both or neither. Of any number of requests at once the
    first works, the others wait for it. What was refused changed nothing and is not kept. Raises `InvalidInput` for a
    key that came with another request, and what `make` raises.
    """
    given = request.headers.getlist(_HEADER)
    if not given:
        return _response(*await make())
    key = _the_key(given)
    now = datetime.now(UTC)
    digest = hashlib.sha256(f"{request.method} {request.url.path}\0".encode() + body).digest()
    if not await _claim(session, caller, key, digest, now):
        return await _first_answer(session, caller, key, digest)
    status, document = await make()
    written = orjson.dumps(document)
    this = (IdempotentAnswer.caller == caller) & (IdempotentAnswer.key == key)
    await session.execute(update(IdempotentAnswer).where(this).values(status=status, body=written))
    return _written(status, written)


def _the_key(given: Sequence[str]) -> str:
    if len(given) > 1:
        raise _refused("must be given once")
    if not (1 <= len(given[0]) <= _LONGEST and given[0].isascii() and given[0].isprintable()):
        raise _refused(f"must be 1 to {_LONGEST} printable ASCII characters")
    return given[0]


def _refused(message: str) -> InvalidInput:
    return InvalidInput(
        "Nothing was done. Mend the header and send it again.", errors=[FieldError(_HEADER, message)]
    )


async def _claim(session: AsyncSession, caller: str, key: str, digest: bytes, now: datetime) -> bool:
    """Whether this is the key's first request."""
    # Of this key alone: a busy caller has tens of thousands, which `forget_old` looks through.
    this = (IdempotentAnswer.caller == caller) & (IdempotentAnswer.key == key)
    await session.execute(delete(IdempotentAnswer).where(this, IdempotentAnswer.created_at < now - RETENTION))
    values = {"caller": caller, "key": key, "request_digest": digest, "created_at": now}
    claimed = insert_unless_there(session, IdempotentAnswer, values).returning(IdempotentAnswer.key)
    return (await session.execute(claimed)).scalar_one_or_none() is not None


async def _first_answer(session: AsyncSession, caller: str, key: str, digest: bytes) -> Response:
    this = (IdempotentAnswer.caller == caller) & (IdempotentAnswer.key == key)
    row = (await session.execute(select(IdempotentAnswer).where(this))).scalar_one_or_none()
    if row is None:
        # It was 24 hours old at this very moment.
        raise Unavailable("The key's first answer is just being forgotten. Send the same request again.")
    if row.request_digest != digest:
        raise _refused("was used for another request; choose a new one for each")
    response = _written(row.status or 200, row.body or b"")
    response.headers["Idempotent-Replayed"] = "true"
    return response


def _response(status: int, document: dict[str, Any]) -> Response:
    return _written(status, orjson.dumps(document))


def _written(status: int, body: bytes) -> Response:
    return Response(body, status, media_type="application/json")
