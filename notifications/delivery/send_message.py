"""Sends one message once. Any result or error becomes an outcome."""

import asyncio
import logging
import time
from collections.abc import Mapping
from datetime import datetime

from control_domain.sealing import CannotOpen, SealingKeys
from notifications.channels.interface import Channel, DeliveryFailed
from notifications.delivery.attempt import Attempt, Leased, shorten_error
from notifications.delivery.recipients import open_address

logger = logging.getLogger(__name__)

# A channel takes at most 15 s. This limit ends a channel that hangs, long before the lease ends.
_SEND_SECONDS = 20.0


async def send_message(
    channels: Mapping[str, Channel], keys: SealingKeys, leased: Leased, now: datetime
) -> Attempt:
    """Send the message through a channel of the recipient's type. Return the outcome."""
    started = time.monotonic()
    failure = await _find_failure(channels, keys, leased)
    took_ms = round((time.monotonic() - started) * 1000)
    if failure is None:
        return Attempt("sent", now, took_ms)
    return Attempt(
        "failed" if failure.is_permanent else "retry",
        now,
        took_ms,
        shorten_error(str(failure)),
        retry_after=failure.retry_after,
        is_gone=failure.is_gone,
    )


async def _find_failure(
    channels: Mapping[str, Channel], keys: SealingKeys, leased: Leased
) -> DeliveryFailed | None:
    channel = channels.get(leased.address.type)
    if channel is None:
        return DeliveryFailed(f"This installation has no channels of the type {leased.address.type}.")
    try:
        destination = open_address(leased.address, keys)
        async with asyncio.timeout(_SEND_SECONDS):
            await channel.send(leased.message, destination)
    except DeliveryFailed as failure:
        return failure
    except CannotOpen as error:
        # The operator may add the missing key, so the failure is temporary.
        return DeliveryFailed(str(error))
    except TimeoutError:
        return DeliveryFailed(f"The receiver did not answer within {_SEND_SECONDS:.0f} s.")
    except Exception:
        # A message that a channel cannot handle must not stop the others.
        logger.exception("notification %s could not be sent", leased.message.id)
        return DeliveryFailed(
            "Sending failed inside Pharos. See the log of the control plane for the reason."
        )
    return None
