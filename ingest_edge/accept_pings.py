"""Accept pings of jobs that can only call a URL: from the request to a durable 200.

The key is part of the path, so no path may reach a log or a response. Like signals, pings take no tokens of the
account's ingest rate.
"""

import asyncio
import contextlib
import hmac
import uuid
from dataclasses import dataclass

import msgspec
from aiohttp import hdrs, web

from ingest_edge.accept_monitors import BODY_SECONDS
from ingest_edge.body import send_continue
from ingest_edge.intake import Intake, now_ms
from pipeline_contracts import topics
from pipeline_contracts.credentials import CredentialKind, digest_credential, is_well_formed
from pipeline_contracts.errors import (
    FieldError,
    InvalidInput,
    MethodNotAllowed,
    NotFound,
    StorageUnavailable,
    Unavailable,
)
from pipeline_contracts.monitors import MonitorMeta, Ping, Signal, encode_monitor_meta
from storage_backends.key_directory.interface import KeyEntry

PINGS = "/ping/"

_METHODS = ("GET", "HEAD", "POST")
OUTPUT_BYTES = 10 * 1024
# Longer output is truncated, but read up to this size: a client that is still sending does not read the response.
_READ_BYTES = 1024 * 1024
_HEADERS = {hdrs.CACHE_CONTROL: "no-store", hdrs.CONTENT_TYPE: "text/plain; charset=utf-8"}
_UNKNOWN = (
    "No heartbeat has this ping key: it is mistyped, expired or revoked. "
    "`pharos heartbeat show ID` prints the ping URL."
)

_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class AcceptPings:
    """The handler of `GET`, `HEAD` and `POST /ping/{key}`, `…/start`, `…/fail` and `…/{exit status}`."""

    intake: Intake

    async def accept(self, request: web.BaseRequest) -> web.StreamResponse:
        """Append one ping to the log."""
        received_ms = now_ms()
        if request.method not in _METHODS:
            raise MethodNotAllowed(
                "A ping URL takes GET, HEAD and POST.", headers={hdrs.ALLOW: "GET, HEAD, POST"}
            )
        secret, _, action = request.path.removeprefix(PINGS).partition("/")
        key, number = await self._find(secret, received_ms)
        signal, exit_status = _read_action(action)
        run_id = _read_run_id(request.query.get("rid"))
        output = await _read_output(request) if request.method == "POST" else None
        ping = _encode(Ping(uuid.uuid4(), signal, run_id, exit_status, output))
        meta = encode_monitor_meta(MonitorMeta("ping", number, key.environment_id, received_ms))
        await self.intake.append(topics.HEARTBEATS, f"heartbeat/{number}".encode(), meta, ping)
        self.intake.metrics.signals_accepted += 1
        return web.Response(body=b"OK", headers=_HEADERS)

    async def _find(self, secret: str, received_ms: int) -> tuple[KeyEntry, int]:
        """Return the key's entry and the ID of its heartbeat. Raises `NotFound` for every key that cannot be used."""
        if not is_well_formed(secret, CredentialKind.PING_KEY):
            raise NotFound(_UNKNOWN)
        digest = digest_credential(secret)
        try:
            entry = await self.intake.directory.find(digest)
        except StorageUnavailable as error:
            raise Unavailable("The ping key cannot be checked now. Call the URL again.") from error
        if entry is None or entry.monitor is None or entry.kind is not CredentialKind.PING_KEY:
            raise NotFound(_UNKNOWN)
        expired = entry.expires_ms is not None and entry.expires_ms <= received_ms
        if expired or not hmac.compare_digest(entry.digest, digest):
            raise NotFound(_UNKNOWN)
        return entry, int(entry.monitor.removeprefix("heartbeat/"))


def _read_action(action: str) -> tuple[Signal, int | None]:
    """Return the signal that the end of the path names, and the exit status if there is one."""
    if action == "":
        return "success", None
    if action == "start":
        return "start", None
    if action == "fail":
        return "failure", None
    if action.isascii() and action.isdigit() and len(action) <= 3 and int(action) <= 255:
        return ("failure" if int(action) else "success"), int(action)
    raise NotFound("A ping URL ends after the key, or with /start, /fail or an exit status of 0 to 255.")


def _read_run_id(rid: str | None) -> uuid.UUID | None:
    if rid is None:
        return None
    try:
        return msgspec.convert(rid, uuid.UUID)
    except msgspec.ValidationError:
        raise InvalidInput(
            "Nothing was stored. Leave `rid` out, or give the run's UUID.",
            errors=[FieldError("rid", "must be a UUID")],
        ) from None


async def _read_output(request: web.BaseRequest) -> str | None:
    """Return the first 10 KiB of the body, or fewer if it arrives too slowly or breaks off: the ping is stored anyway.

    These bytes do not count against the body memory budget: they are fewer than the connection's own buffer.
    """
    output = bytearray()
    size = 0
    with contextlib.suppress(TimeoutError, web.RequestPayloadError, ConnectionError):
        async with asyncio.timeout(BODY_SECONDS):
            await send_continue(request)
            while size < _READ_BYTES and (chunk := await request.content.readany()):
                output += chunk[: OUTPUT_BYTES - len(output)]
                size += len(chunk)
    # Postgres cannot store NUL in text.
    return output.decode(errors="replace").replace("\0", "\ufffd") or None
