"""Accept envelopes of Sentry's SDKs: from the request to a durable 200.

Keys may be a part of the URL, so no path and no query may appear in a log or a response.
"""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from aiohttp import hdrs, web

from ingest_edge.authenticate import authenticate
from ingest_edge.intake import Intake, LogEntry, now_ms
from ingest_edge.limits import Limits
from ingest_edge.sentry.answers import accepted_response, preflight_response
from ingest_edge.sentry.check_ins import make_signal
from ingest_edge.sentry.conversion_slots import ConversionSlots
from ingest_edge.sentry.convert import Converted, Record, convert_envelope
from ingest_edge.sentry.dropped import DroppedItems
from ingest_edge.sentry.dsn_key import find_key, find_key_in_envelope
from ingest_edge.sentry.envelope import Envelope, Item, read_envelope, read_header
from pipeline_contracts import topics
from pipeline_contracts.client_address import ClientAddresses, network_of
from pipeline_contracts.credentials import CREDENTIAL_LENGTH, CredentialKind
from pipeline_contracts.errors import InvalidCredential, InvalidInput, MethodNotAllowed, PayloadTooLarge
from pipeline_contracts.identifiers import receipt_name
from pipeline_contracts.otlp.records import OtlpMeta, encode_otlp_meta
from pipeline_contracts.records import BatchMeta, encode_meta
from storage_backends.key_directory.interface import KeyEntry

SENTRY = "/api/{project}/envelope"
PATHS = re.compile(r"/api/[0-9]{1,20}/(envelope|store)/?")
"""The number is that of the DSN. SDKs require digits there; the key alone identifies the environment."""
ALLOW = "POST, OPTIONS"

# Size of an envelope, and number of its commas and so of its values, up to which its conversion takes at most 20 ms.
_INLINE_BYTES = 256 * 1024
_INLINE_VALUES = 5_000
# The SDKs send one in an envelope; each costs a look-up and a row.
MAX_CHECK_INS = 10
# Bytes of a body that has no key in the head. Tunnels forward bodies of this kind from browsers.
_ANONYMOUS_BYTES = 1024 * 1024
# As long as a key, because envelopes contain the lengths of their items.
_MASKED_KEY = CredentialKind.INGEST_KEY.encode().ljust(CREDENTIAL_LENGTH, b"*")
_NO_KEY = "The request names no key. The DSN is https://INGEST_KEY@HOST/1; `pharos key create` prints it for a new key."


@dataclass(slots=True)
class AcceptSentry:
    """The handler of `OPTIONS` and `POST /api/{number}/envelope/` and `…/store/`."""

    intake: Intake
    dropped: DroppedItems
    addresses: ClientAddresses
    _anonymous_limits: Limits = field(init=False)
    _slots: ConversionSlots = field(init=False, default_factory=ConversionSlots)

    def __post_init__(self) -> None:
        limits = self.intake.limits
        self._anonymous_limits = replace(
            limits,
            body_bytes=min(limits.body_bytes, _ANONYMOUS_BYTES),
            decompressed_bytes=min(limits.decompressed_bytes, _ANONYMOUS_BYTES),
        )

    async def accept(self, request: web.BaseRequest) -> web.StreamResponse:
        """Store the items of an envelope that Pharos keeps, and respond once they are durable."""
        if request.method == "OPTIONS":
            return preflight_response()
        if request.method != "POST":
            raise MethodNotAllowed("Sentry's SDKs send POST here.", headers={hdrs.ALLOW: ALLOW})
        received_ms = now_ms()
        is_envelope = request.path.rstrip("/").endswith("/envelope")
        secret = find_key(request)
        if secret is not None:
            key = await self._authenticate(secret, received_ms)
            lease = self.intake.budgets.telemetry.lease(key.account_id)
            limits = self.intake.limits
        elif not is_envelope:
            raise InvalidCredential(_NO_KEY)
        else:
            # Only the envelope names the key: until it is read, the bytes count for the sender's network.
            forwarded = ",".join(request.headers.getall(hdrs.X_FORWARDED_FOR, ())) or None
            address = self.addresses.find(request.remote, forwarded)
            lease = self.intake.budgets.collect.lease(network_of(address))
            limits = self._anonymous_limits
        try:
            body = await self.intake.read(request, limits, lease, brotli=True)
            if secret is None:
                secret = find_key_in_envelope(read_header(body))
                key = await self._authenticate(secret, received_ms)
            converted = Converted()
            try:
                read = partial(self._read, body, secret, converted, is_envelope=is_envelope)
                if len(body) <= _INLINE_BYTES and body.count(b",") <= _INLINE_VALUES:
                    read()
                else:
                    await self._read_in_thread(read, key)
            except (InvalidInput, PayloadTooLarge):
                # Take the tokens: a refused envelope costs the edge as much as a stored one.
                await self.intake.store_all(key, min(max(1, converted.members), key.limit.burst), ())
                raise
            lease.take(converted.record_bytes)
            return await self._store(key, converted, received_ms)
        finally:
            lease.release()

    async def _read_in_thread(self, read: Callable[[], None], key: KeyEntry) -> None:
        """Convert a large envelope in a thread, because the largest would block the event loop for a second. Raises
        what `_read` raises, and `Unavailable` if too many large envelopes wait."""
        # Items are copies of parts of the body. A request splits its body only while it holds a slot: a waiting request
        # has only the leased bytes of its body in memory.
        async with self._slots.hold(key.account_id):
            await asyncio.to_thread(read)

    def _read(self, body: bytes, secret: str | None, converted: Converted, *, is_envelope: bool) -> None:
        """Split and convert a body."""
        if secret is not None:
            # Applications that take the DSN as an argument send it with each event.
            body = body.replace(secret.encode(), _MASKED_KEY)
        envelope = read_envelope(body) if is_envelope else Envelope({}, [Item("event", body)])
        convert_envelope(envelope, self.intake.limits, converted)

    async def _authenticate(self, secret: str | None, received_ms: int) -> KeyEntry:
        if secret is None:
            raise InvalidCredential(_NO_KEY)
        return await authenticate(
            f"Bearer {secret}", CredentialKind.INGEST_KEY, self.intake.directory, received_ms
        )

    async def _store(self, key: KeyEntry, converted: Converted, received_ms: int) -> web.StreamResponse:
        entries = [_make_entry(key, record, received_ms) for record in converted.records]
        check_ins = converted.check_ins[:MAX_CHECK_INS]
        if surplus := len(converted.check_ins) - len(check_ins):
            converted.dropped["check_in", "too_many"] += surplus
        found = [await make_signal(self.intake, key, each, received_ms) for each in check_ins]
        signals = [signal for signal in found if signal is not None]
        if missing := len(found) - len(signals):
            converted.dropped["check_in", "no_heartbeat"] += missing
        # Invalid members take tokens too, and so does an envelope of which nothing is kept: they cost the edge as much
        # as any other. The SDKs send each check-in in a separate envelope; it takes no tokens, like all signals of
        # heartbeats. Further check-ins of an envelope do: one envelope must not carry more free signals than a ping.
        tokens = converted.members + max(0, len(check_ins) - 1) or (0 if signals else 1)
        headers = await self.intake.store_all(key, tokens, [*entries, *signals])
        self.intake.metrics.events_accepted += converted.count
        self.intake.metrics.signals_accepted += len(signals)
        self.dropped.count(key, converted.dropped)
        return accepted_response(converted.event_id, headers)


def _make_entry(key: KeyEntry, record: Record, received_ms: int) -> LogEntry:
    owner = (key.account_id, key.project_id, key.environment_id)
    if record.topic == topics.TELEMETRY:
        meta = encode_meta(BatchMeta(*owner, received_ms, record.count, record.identity))
    else:
        meta = encode_otlp_meta(OtlpMeta(*owner, received_ms, record.count, batch_id=record.identity))
    # All records of an identity are in one partition, in order: its consumer knows which one came first.
    name = receipt_name(key.environment_id, record.identity)
    return LogEntry(record.topic, name.encode(), meta, record.body)
