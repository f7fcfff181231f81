"""Sends one batch of log events to the edge."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import aiohttp
import msgspec

_COMPRESSION_LEVEL = 1
_LONGEST_WAIT = 60.0
_MAX_ANSWER_BYTES = 65536
_PROBLEM = "application/problem+json"

Outcome = Literal["stored", "wait", "key_refused", "too_large", "refused"]


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of sending a batch: the batch is stored, it can be sent again after `seconds`, its key is not
    accepted, only a smaller batch may be accepted, or the batch will never be accepted."""

    outcome: Outcome
    reason: str = ""
    seconds: float | None = None


async def send_batch(
    session: aiohttp.ClientSession, url: str, key: str, batch_id: str, events: Sequence[Mapping[str, Any]]
) -> Answer:
    """Send the events under this batch ID. `url`: the URL of the edge, without `/api`."""
    body = zlib.compress(
        msgspec.json.encode({"batch_id": batch_id, "events": events}), _COMPRESSION_LEVEL, wbits=31
    )
    headers = {
        "Authorization": f"Bearer {key}",
        "Content-Type": "application/json",
        "Content-Encoding": "gzip",
    }
    try:
        async with session.post(
            f"{url}/api/v1/ingest", data=body, headers=headers, allow_redirects=False
        ) as response:
            await response.content.read(_MAX_ANSWER_BYTES)
            status, retry_after = response.status, response.headers.get("Retry-After", "")
            is_problem = response.content_type == _PROBLEM
    except TimeoutError:
        return Answer("wait", f"{url} did not respond in time")
    except (aiohttp.ClientError, OSError) as error:
        return Answer("wait", f"{url} cannot be reached ({type(error).__name__})")
    return read_answer(url, status, retry_after, is_problem=is_problem)


def read_answer(url: str, status: int, retry_after: str, *, is_problem: bool) -> Answer:
    """Return what a response means. `is_problem`: True if the body is a problem document, as in responses of the
    edge."""
    if status == 202:
        return Answer("stored")
    reason = f"{url} returned {status}"
    if status in (401, 403):
        return Answer("key_refused", reason)
    if status == 413 and is_problem:
        return Answer("too_large", reason)
    if status in (400, 422) and is_problem:
        return Answer("refused", reason)
    # Other responses may be temporary. The URL may also lead to another server, such as one that expects TLS, until
    # someone corrects it.
    seconds = (
        min(float(retry_after), _LONGEST_WAIT) if retry_after.isascii() and retry_after.isdigit() else None
    )
    return Answer("wait", reason, seconds)
