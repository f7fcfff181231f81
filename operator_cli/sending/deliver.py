"""Delivers one batch: sends it until the server has taken it, or it is clear which of its events it never will."""

import io
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from operator_cli.failure import CommandFailed
from operator_cli.sending.batches import Batch, derive_id, encode_body
from operator_cli.sending.patience import Patience, parse_retry_after
from operator_cli.sending.report import Report

_HEADERS = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
_AT_ONCE = 2**20
_TRY_AGAIN = frozenset((408, 429, 500, 502, 503, 504))
_FAULTY_EVENT = re.compile(r"events\[(\d+)\]")
_ADVICE = {
    401: "Is it the ingest key of this server?",
    403: "The key may not send events.",
    404: "Does the address end in /api?",
    415: "Is it a Pharos?",
}


class _Receipt(msgspec.Struct):
    id: str
    received: int


class _Accepted(msgspec.Struct):
    data: _Receipt


class _FieldError(msgspec.Struct):
    field: str
    message: str = ""


class _Refusal(msgspec.Struct):
    detail: str = ""
    errors: list[_FieldError] = []


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    content: bytes


class Delivery:
    """Sends to one address. Many batches may be under way at once."""

    def __init__(
        self, session: aiohttp.ClientSession, base_url: str, patience: Patience, report: Report
    ) -> None:
        self._session = session
        self._url = f"{base_url}/v1/ingest"
        self._base_url = base_url
        self._patience = patience
        self._report = report

    async def deliver(self, file: str, batch: Batch) -> str | None:
        """The receipt's ID, the last one if the batch had to be divided; None if no event was taken.

        Events that the server refuses are reported with their line. Raises `CommandFailed` when the server
        takes nothing from this sender.
        """
        everything = range(len(batch.events))
        return await self._send(file, batch, everything, batch.id, batch.body) if everything else None

    async def _send(
        self, file: str, batch: Batch, kept: Sequence[int], batch_id: str, body: bytes
    ) -> str | None:
        answer = await self._post(body)
        if answer.status == 202:
            return self._count(answer, len(kept))
        refusal = _read_refusal(answer)
        if answer.status == 422:
            faulty = self._faulty_events(refusal, kept)
            for index, message in faulty.items():
                self._report.refuse_event(file, batch.lines[index], message)
            if faulty:
                return await self._send_part(file, batch, [index for index in kept if index not in faulty])
        if len(kept) == 1:
            reason = "; ".join(error.message for error in refusal.errors) or refusal.detail or "too large"
            self._report.refuse_event(file, batch.lines[kept[0]], reason)
            return None
        # Too much at once, or something in it that has no name: halves tell.
        middle = len(kept) // 2
        first = await self._send_part(file, batch, kept[:middle])
        return await self._send_part(file, batch, kept[middle:]) or first

    async def _send_part(self, file: str, batch: Batch, kept: Sequence[int]) -> str | None:
        if not kept:
            return None
        batch_id = derive_id(batch.id, kept)
        body = encode_body(batch_id, [batch.events[index] for index in kept])
        return await self._send(file, batch, kept, batch_id, body)

    async def _post(self, body: bytes) -> _Answer:
        """The first answer that is final: 202, 413 or 422."""
        totals = self._report.totals
        while True:
            await self._patience.wait_turn()
            totals.bytes_sent += len(body)
            try:
                # A large body is handed over in pieces, so that other requests go on meanwhile.
                data = body if len(body) <= _AT_ONCE else io.BytesIO(body)
                async with self._session.post(
                    self._url, data=data, headers=_HEADERS, allow_redirects=False
                ) as response:
                    answer = _Answer(response.status, await response.read())
                    retry_after = response.headers.get("Retry-After")
            except aiohttp.ClientConnectorCertificateError as error:
                raise CommandFailed(f"{self._base_url} is not trusted: {error}") from None
            except TimeoutError:
                self._patience.fail(f"{self._base_url} does not answer in time", None)
            except (aiohttp.ClientError, OSError) as error:
                self._patience.fail(f"{self._base_url} cannot be reached ({type(error).__name__})", None)
            else:
                if answer.status in (202, 413, 422):
                    self._patience.succeed()
                    return answer
                if answer.status not in _TRY_AGAIN:
                    raise CommandFailed(self._explain(answer))
                self._patience.fail(
                    f"{self._base_url} answers {answer.status}", parse_retry_after(retry_after, time.time())
                )
            totals.resent += 1

    def _count(self, answer: _Answer, sent: int) -> str:
        try:
            receipt = msgspec.json.decode(answer.content, type=_Accepted).data
        except msgspec.DecodeError:
            raise CommandFailed(f"{self._base_url} answers 202 without a receipt. Is it a Pharos?") from None
        totals = self._report.totals
        totals.batches += 1
        totals.events_sent += sent
        totals.accepted += receipt.received
        return receipt.id

    def _faulty_events(self, refusal: _Refusal, kept: Sequence[int]) -> dict[int, str]:
        """The events that the answer names, by their place in the whole batch."""
        faulty: dict[int, str] = {}
        for error in refusal.errors:
            match = _FAULTY_EVENT.match(error.field)
            if match is not None and int(match[1]) < len(kept):
                field = error.field[match.end() :].removeprefix(".")
                faulty.setdefault(kept[int(match[1])], f"{field} {error.message}".strip())
        if not faulty and all(error.field == "batch_id" for error in refusal.errors):
            # Not about the events, and so the next batch would fare the same.
            raise CommandFailed(f"{self._base_url} refuses every batch: 422 {refusal.detail}")
        return faulty

    def _explain(self, answer: _Answer) -> str:
        detail = _read_refusal(answer).detail
        advice = _ADVICE.get(answer.status, "")
        return " ".join(part for part in (f"{self._url} answers {answer.status}.", detail, advice) if part)


def _read_refusal(answer: _Answer) -> _Refusal:
    try:
        return msgspec.json.decode(answer.content, type=_Refusal)
    except msgspec.DecodeError:
        return _Refusal()


def sending_session(key: str, connections: int, **options: Any) -> aiohttp.ClientSession:
    """A session for `Delivery` that sends the key with each request."""
    return aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {key}"},
        connector=aiohttp.TCPConnector(limit=connections),
        timeout=aiohttp.ClientTimeout(total=90, sock_connect=10),
        **options,
    )
