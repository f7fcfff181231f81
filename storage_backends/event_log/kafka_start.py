"""Starts clients of aiokafka without leaking connections, and explains why brokers refuse a connection.

aiokafka reports every refusal as "unable to bootstrap".
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from aiokafka.conn import collect_hosts, create_conn
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.metadata import MetadataRequest

from storage_backends.end_task import close_within
from storage_backends.event_log.kafka_connection import KafkaConnection

_STOP_SECONDS = 1.0
_CONNECT_MS = 3000
_given_up: set[asyncio.Task[None]] = set()


async def start_client(
    start: Callable[[], Coroutine[Any, Any, None]],
    stop: Callable[[], Coroutine[Any, Any, None]],
    seconds: float | None = None,
) -> None:
    """Start a client, and stop it if it has not started after `seconds`. Raises `TimeoutError` and the errors of
    `start`.

    A cancelled start of aiokafka never closes its connection for the cluster's metadata. So a start that is given up
    continues in the background until its requests time out. The client is stopped then.
    """
    starting = asyncio.ensure_future(start())
    try:
        async with asyncio.timeout(seconds):
            await asyncio.shield(starting)
    except BaseException:
        stopping = asyncio.ensure_future(_stop(starting, stop))
        if starting.done():
            await stopping
        else:
            _given_up.add(stopping)
            stopping.add_done_callback(_given_up.discard)
        raise


async def _stop(starting: Awaitable[None], stop: Callable[[], Coroutine[Any, Any, None]]) -> None:
    # `finally` also covers the end of the event loop, which cancels both tasks.
    try:
        with contextlib.suppress(Exception):
            await starting
    finally:
        await close_within(_STOP_SECONDS, stop())


async def describe_failure(connection: KafkaConnection, error: Exception) -> str:
    """Return one sentence that says why the start of a client failed, without the password.

    Connects once more to learn the reason: aiokafka logs the reason and does not return it.
    """
    if isinstance(error, KafkaConnectionError):
        with contextlib.suppress(OSError, TimeoutError):
            return f"Kafka at {connection.bootstrap} {await _find_reason(connection)}"
    return f"Kafka at {connection.bootstrap}: {error!r}"


async def _find_reason(connection: KafkaConnection) -> str:
    """Connect to the first broker, and return why it refuses the connection. Raises `OSError` and `TimeoutError` if
    the broker cannot be reached."""
    options = connection.client_options()
    for name in ("retry_backoff_ms", "metadata_max_age_ms"):
        del options[name]
    ((host, port, _), *_) = collect_hosts(options.pop("bootstrap_servers"), randomize=False)
    try:
        reached = await create_conn(host, port, **options, request_timeout_ms=_CONNECT_MS)
        try:
            # A broker that expects another protocol may respond to the version request and close the connection only
            # after this request.
            await reached.send(MetadataRequest([]))
        finally:
            reached.close()
    except SaslAuthenticationFailed:
        return (
            f"refused the user {connection.username!r}: unknown user or wrong password. "
            "Check PHAROS_KAFKA_USERNAME and PHAROS_KAFKA_PASSWORD."
        )
    except UnsupportedSaslMechanismError:
        return f"does not offer the login {connection.sasl_mechanism}. Check PHAROS_KAFKA_SASL_MECHANISM."
    except KafkaError as error:
        return (
            f"closed a connection with the protocol {connection.security} ({error!r}). "
            "Brokers that ask for a password or TLS do that. Check PHAROS_KAFKA_SECURITY."
        )
    return "can be reached again after a failed start. Try again."
