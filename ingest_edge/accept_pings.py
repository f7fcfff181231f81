"""Accept pings of jobs that can only call a URL: from the request to a durable 200.

The key is part of the path, so no path may appear in a log or a response. Like signals, pings take no tokens of the
account's ingest rate.
"""

import asyncio
import contextlib
import hmac
import uuid
from functools import partial
from urllib.parse import unquote

import msgspec
from aiohttp import hdrs, web

from ingest_edge.accept_monitors import BODY_SECONDS
from ingest_edge.body import send_continue
from ingest_edge.create_heartbeats import HeartbeatCreations
from ingest_edge.heartbeat_names import find_heartbeat_by_name
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
from pipeline_contracts.monitors import MonitorMeta, Ping, PingSignal, encode_monitor_meta
from storage_backends.key_directory.interface import KeyEntry

PINGS = "/ping/"

_METHODS = ("GET", "HEAD", "POST")
OUTPUT_BYTES = 10 * 1024
# Longer output is truncated, but the edge reads up to this size: a client that is still sending does not read the
# response.
_READ_BYTES = 1024 * 1024
_HEADERS = {hdrs.CACHE_CONTROL: "no-store", hdrs.CONTENT_TYPE: "text/plain; charset=utf-8"}
_UNKNOWN = (
    "No heartbeat has this ping key: it is mistyped, expired or revoked. "
    "`pharos heartbeat show ID` prints the ping URL."
)
_UNKNOWN_ENVIRONMENT = (
    "No environment has this ping key: it is mistyped, expired or revoked. "
    "`pharos ping-key create` makes a new one."
)
_NO_NAME = "Add the name of a heartbeat after the key of its environment: /ping/<key>/<name>."
_ENDINGS = "nothing, /start, /fail, /log or an exit status of 0 to 255"

_encode = msgspec.json.Encoder().encode


class AcceptPings:
    """The handler of `GET`, `HEAD` and `POST /ping/{key}`, `…/start`, `…/fail`, `…/log` and `…/{exit status}`; and of
    the same endings after `/ping/{key of an environment}/{name of a heartbeat}`."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._creations = HeartbeatCreations(intake)

    async def accept(self, request: web.BaseRequest) -> web.StreamResponse:
        """Append one ping to the log."""
        received_ms = now_ms()
        if request.method not in _METHODS:
            raise MethodNotAllowed(
                "A ping URL takes GET, HEAD and POST.", headers={hdrs.ALLOW: "GET, HEAD, POST"}
            )
        secret, _, action = request.path.removeprefix(PINGS).partition("/")
        if is_well_formed(secret, CredentialKind.ENVIRONMENT_PING_KEY):
            return await self._accept_by_name(request, secret, received_ms)
        key = await self._find(secret, CredentialKind.PING_KEY, received_ms, _UNKNOWN)
        if key.monitor is None:
            raise NotFound(_UNKNOWN)
        number = int(key.monitor.removeprefix("heartbeat/"))
        await self._store(await _read_ping(request, action), key, number, received_ms)
        return web.Response(body=b"OK", headers=_HEADERS)

    async def _accept_by_name(
        self, request: web.BaseRequest, secret: str, received_ms: int
    ) -> web.StreamResponse:
        key = await self._find(secret, CredentialKind.ENVIRONMENT_PING_KEY, received_ms, _UNKNOWN_ENVIRONMENT)
        # Split the path as sent, because a name may contain a slash, written as %2F.
        _, _, rest = request.rel_url.raw_path.removeprefix(PINGS).partition("/")
        quoted_name, _, action = rest.partition("/")
        name = unquote(quoted_name, errors="replace")
        if not name:
            raise NotFound(_NO_NAME)
        try:
            number = await find_heartbeat_by_name(self._intake.directory, key.environment_id, name)
        except StorageUnavailable as error:
            raise _cannot_check() from error
        if number is not None:
            self._creations.forget(key, name)
            await self._store(await _read_ping(request, action), key, number, received_ms)
            return web.Response(body=b"OK", headers=_HEADERS)
        read_ping = partial(_read_ping, request, action, name)
        is_new = await self._creations.store(
            key, name, read_ping, may_create=request.query.get("create") == "1", received_ms=received_ms
        )
        return web.Response(
            body=b"Created" if is_new else b"OK", status=201 if is_new else 200, headers=_HEADERS
        )

    async def _store(self, ping: Ping, key: KeyEntry, number: int, received_ms: int) -> None:
        meta = encode_monitor_meta(MonitorMeta("ping", number, key.environment_id, received_ms))
        await self._intake.append(topics.HEARTBEATS, f"heartbeat/{number}".encode(), meta, _encode(ping))
        self._intake.metrics.signals_accepted += 1

    async def _find(self, secret: str, kind: CredentialKind, received_ms: int, unknown: str) -> KeyEntry:
        """Return the key's entry. Raises `NotFound` with the text `unknown` for every key that cannot be used."""
        if not is_well_formed(secret, kind):
            raise NotFound(unknown)
        digest = digest_credential(secret)
        try:
            entry = await self._intake.directory.find(digest)
        except StorageUnavailable as error:
            raise _cannot_check() from error
        if entry is None or entry.kind is not kind or not hmac.compare_digest(entry.digest, digest):
            raise NotFound(unknown)
        if entry.expires_ms is not None and entry.expires_ms <= received_ms:
            raise NotFound(unknown)
        return entry


def _cannot_check() -> Unavailable:
    return Unavailable("The ping key cannot be checked now. Call the URL again.")


async def _read_ping(request: web.BaseRequest, action: str, name: str | None = None) -> Ping:
    """Return the ping of a request: `action` is the end of its path, `name` that of a heartbeat without a known ID."""
    signal, exit_status = _read_action(action)
    run_id = _read_run_id(request.query.get("rid"))
    output = await _read_output(request) if request.method == "POST" else None
    return Ping(uuid.uuid4(), signal, run_id, exit_status, output, name)


def _read_action(action: str) -> tuple[PingSignal, int | None]:
    """Return the signal that the end of the path names, and the exit status if there is one."""
    if action == "":
        return "success", None
    if action == "start":
        return "start", None
    if action == "fail":
        return "failure", None
    if action == "log":
        return "log", None
    if action.isascii() and action.isdigit() and len(action) <= 3 and int(action) <= 255:
        return ("failure" if int(action) else "success"), int(action)
    raise NotFound(f"After the key, or the key and a name, a ping URL has {_ENDINGS}.")


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
    """Return the first 10 KiB of the body, or fewer bytes if the body arrives too slowly or is incomplete: the ping is
    stored anyway.

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
