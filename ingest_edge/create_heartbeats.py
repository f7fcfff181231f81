"""Accept pings for names that no heartbeat has yet.

The edge appends a record that names the heartbeat; the consumer creates it, once, and applies the ping. The control
plane then publishes the name, usually within two seconds. For a few seconds this edge accepts further pings of the name
without another creation.
"""

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import hdrs

from ingest_edge.intake import Intake
from pipeline_contracts import topics
from pipeline_contracts.errors import (
    Conflict,
    FieldError,
    InvalidInput,
    NotFound,
    RateLimited,
    TooManyRequests,
)
from pipeline_contracts.heartbeat_names import CREATED_RATE, MAX_CREATED_IN, may_create_heartbeat
from pipeline_contracts.monitors import MonitorMeta, Ping, encode_monitor_meta
from storage_backends.key_directory.interface import KeyEntry

# As long as an edge may accept a revoked key, so that a heartbeat that is renamed or removed immediately is accepted no
# longer than that.
_REMEMBERED_SECONDS = 5.0
# Time in which a repeated creation of a name takes no token: the heartbeat is created late if an engine is unavailable.
_PAID_SECONDS = 3600.0
_MAX_REMEMBERED = 10_000
_ALLOWED = "1 to 100 of A-Z, a-z, 0-9, '.', '_' and '-', the first one a letter or a digit"

_encode = msgspec.json.Encoder().encode


class HeartbeatCreations:
    """Stores pings for names without a heartbeat, within limits of the project and the environment."""

    def __init__(self, intake: Intake, clock: Callable[[], float] = time.monotonic) -> None:
        self._intake = intake
        self._clock = clock
        # When each name was created; the oldest first.
        self._created: OrderedDict[tuple[str, str], float] = OrderedDict()

    async def store(
        self,
        key: KeyEntry,
        name: str,
        read_ping: Callable[[], Awaitable[Ping]],
        *,
        may_create: bool,
        received_ms: int,
    ) -> bool:
        """Append the ping for the heartbeat of this name. Return True if it creates the heartbeat, False if an earlier
        ping does.

        Raises `NotFound` if the ping may not create it, `InvalidInput` if a ping cannot create a heartbeat of this
        name, `Conflict` if the environment is full, `TooManyRequests` if the project creates too many, and
        `Unavailable`.
        """
        age = self._clock() - self._created.get((key.environment_id, name), -_PAID_SECONDS)
        if age < _REMEMBERED_SECONDS:
            await self._append(key, name, await read_ping(), received_ms)
            return False
        if not may_create:
            raise NotFound(
                "The environment of this key has no heartbeat of this name. Create the heartbeat, or add ?create=1 to "
                "the URL: then a ping creates it."
            )
        if not may_create_heartbeat(name):
            raise InvalidInput(
                "Nothing was stored. Choose another name, or create the heartbeat by hand.",
                errors=[FieldError("name", f"must be {_ALLOWED}, for a ping to create the heartbeat")],
            )
        if not key.may_create:
            raise Conflict(
                f"Pings create no more heartbeats here: the environment has {MAX_CREATED_IN:,}, or the account has as "
                "many as it may have. Remove some, or create this one by hand."
            )
        ping = await read_ping()
        bucket = f"heartbeats/{key.project_id}"
        tokens = 1 if age >= _PAID_SECONDS else 0
        try:
            if tokens:
                await self._intake.admission.take(bucket, tokens, CREATED_RATE)
        except RateLimited as error:
            raise TooManyRequests(
                f"Pings may create {CREATED_RATE.burst} heartbeats of a project at once, and then one in "
                f"{1 / CREATED_RATE.rate:g} s. Call the URL again later, or create the heartbeat by hand.",
                headers={hdrs.RETRY_AFTER: error.headers[hdrs.RETRY_AFTER]},
            ) from None
        try:
            ping.may_create = True
            await self._append(key, name, ping, received_ms)
        except BaseException:
            if tokens:
                self._intake.admission.refund(bucket, tokens)
            raise
        self._remember(key, name)
        return True

    def forget(self, key: KeyEntry, name: str) -> None:
        """Note that the heartbeat is published: from now on it exists only as long as the key directory has it."""
        self._created.pop((key.environment_id, name), None)

    def _remember(self, key: KeyEntry, name: str) -> None:
        self._created[key.environment_id, name] = self._clock()
        self._created.move_to_end((key.environment_id, name))
        if len(self._created) > _MAX_REMEMBERED:
            self._created.popitem(last=False)

    async def _append(self, key: KeyEntry, name: str, ping: Ping, received_ms: int) -> None:
        meta = encode_monitor_meta(MonitorMeta("named ping", 0, key.environment_id, received_ms))
        # All pings of a name are in one partition, so that one consumer creates its heartbeat.
        log_key = f"heartbeat/{key.environment_id}/{name}".encode("utf-8", "replace")
        await self._intake.append(topics.HEARTBEATS, log_key, meta, _encode(ping))
        self._intake.metrics.signals_accepted += 1
