"""`Idempotency-Key`: a repeated request gets the stored response of the first one and changes nothing."""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import orjson
from fastapi import Request, Response
from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.statements import insert_if_absent
from control_domain.published_keys import ChangedKeys
from control_domain.sealing import CannotOpen, Sealed, SealingKeys
from control_domain.tables.idempotency import RETENTION, IdempotentResponse
from pipeline_contracts.errors import FieldError, InvalidInput, Unavailable

_HEADER = "Idempotency-Key"
_MAX_KEY_CHARACTERS = 255
_SEPARATOR = b":"

RouteResponse = tuple[int, dict[str, Any]]
"""Status and JSON document of a response."""


async def respond_idempotently(
    request: Request,
    session: AsyncSession,
    caller: str,
    body: bytes,
    make: Callable[[], Awaitable[RouteResponse]],
    *,
    seal: SealingKeys | None = None,
    changed_keys: ChangedKeys | None = None,
) -> Response:
    """Return the response of `make`, or the stored response of the first request with the same `Idempotency-Key`.

    A response is stored for 24 hours, in the transaction of `make`: both are committed or neither. Of concurrent
    requests with one key the first calls `make`, and the others wait for it. An error changes nothing and is not
    stored. Without a key `make` is called each time.

    `caller` identifies the caller who chose the key; keys of different callers are independent. With `seal`, the
    response is stored sealed, because it contains a secret. `make` adds to `changed_keys` the keys to publish to the
    edges after the commit; a stored response adds them again, because it is unknown whether they were published.
    Raises `InvalidInput` for an invalid key or one that was used for another request, and the exceptions of `make`.
    """
    keys = request.headers.getlist(_HEADER)
    if not keys:
        status, document = await make()
        return _json_response(status, orjson.dumps(document))
    key = _check_key(keys)
    now = datetime.now(UTC)
    digest = hashlib.sha256(f"{request.method} {request.url.path}\0".encode() + body).digest()
    if not await _claim_key(session, caller, key, digest, now):
        return await _stored_response(session, caller, key, digest, seal, changed_keys)
    status, document = await make()
    content = orjson.dumps(document)
    stored = content if seal is None else _seal(content, seal, caller, key)
    row = (IdempotentResponse.caller == caller) & (IdempotentResponse.key == key)
    changed = msgspec.json.encode(changed_keys) if changed_keys else None
    await session.execute(
        update(IdempotentResponse).where(row).values(status=status, body=stored, changed_keys=changed)
    )
    return _json_response(status, content)


def _seal(content: bytes, keys: SealingKeys, caller: str, key: str) -> bytes:
    sealed = keys.seal({"body": content.decode()}, _owner(caller, key))
    return sealed.key_id.encode() + _SEPARATOR + sealed.data


def _open(stored: bytes, keys: SealingKeys, caller: str, key: str) -> bytes:
    key_id, _, data = stored.partition(_SEPARATOR)
    try:
        return keys.open(Sealed(key_id.decode(), data), _owner(caller, key))["body"].encode()
    except CannotOpen as error:
        # The key that sealed it was rotated out within the 24 hours.
        raise _invalid_key(
            "was used already, and its response can no longer be opened; choose a new key"
        ) from error


def _owner(caller: str, key: str) -> str:
    return f"idempotent response of {caller} to {key}"


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


async def _stored_response(
    session: AsyncSession,
    caller: str,
    key: str,
    digest: bytes,
    seal: SealingKeys | None,
    changed_keys: ChangedKeys | None,
) -> Response:
    query = select(IdempotentResponse).where(
        IdempotentResponse.caller == caller, IdempotentResponse.key == key
    )
    row = (await session.execute(query)).scalar_one_or_none()
    if row is None:
        # `forget_old` deleted the row after `_claim_key` had found it.
        raise Unavailable("The idempotency key is expiring. Send the same request again.")
    if row.request_digest != digest:
        raise _invalid_key("was used for another request; choose a new key for each request")
    content = row.body or b""
    if seal is not None:
        content = _open(content, seal, caller, key)
    if changed_keys is not None and row.changed_keys is not None:
        changed_keys.add(msgspec.json.decode(row.changed_keys, type=ChangedKeys))
    response = _json_response(row.status or 200, content)
    response.headers["Idempotent-Replayed"] = "true"
    return response


def _json_response(status: int, content: bytes) -> Response:
    return Response(content, status, media_type="application/json")
