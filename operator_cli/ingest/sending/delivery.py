"""Deliver one batch: retry until the server accepts it, and leave out the events that the server refuses."""

import io
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from operator_cli.errors import CommandFailed
from operator_cli.ingest.sending.backoff import Backoff, parse_retry_after
from operator_cli.ingest.sending.batches import Batch, derive_batch_id, encode_body
from operator_cli.ingest.sending.report import Report

_HEADERS = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
_MAX_UNSTREAMED_BYTES = 2**20
_RETRIED_STATUSES = frozenset((408, 429, 500, 502, 503, 504))
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
class _Response:
    status: int
    content: bytes


class Delivery:
    """Sends batches to one address, several at once."""

    def __init__(
        self, session: aiohttp.ClientSession, base_url: str, backoff: Backoff, report: Report
    ) -> None:
        self._session = session
        self._url = f"{base_url}/v1/ingest"
        self._base_url = base_url
        self._backoff = backoff
        self._report = report

    async def deliver(self, file: str, batch: Batch) -> str | None:
        """Return the receipt ID, the last one if the batch had to be split; None if no event was accepted.

        Events that the server refuses are reported with their line. Raises `CommandFailed` if the server accepts
        nothing from this sender.
        """
        everything = range(len(batch.events))
        return await self._send(file, batch, everything, batch.id, batch.body) if everything else None

    async def _send(
        self, file: str, batch: Batch, indexes: Sequence[int], batch_id: str, body: bytes
    ) -> str | None:
        response = await self._post(body)
        if response.status == 202:
            return self._record_receipt(response, len(indexes))
        refusal = _read_refusal(response)
        if response.status == 422:
            faulty = self._find_faulty_events(refusal, indexes)
            for index, message in faulty.items():
                self._report.refuse_event(file, batch.lines[index], message)
            if faulty:
                return await self._send_part(file, batch, [index for index in indexes if index not in faulty])
        if len(indexes) == 1:
            reason = "; ".join(error.message for error in refusal.errors) or refusal.detail or "too large"
            self._report.refuse_event(file, batch.lines[indexes[0]], reason)
            return None
        # The batch is too large, or the response names no event: halves narrow it down.
        middle = len(indexes) // 2
        first = await self._send_part(file, batch, indexes[:middle])
        return await self._send_part(file, batch, indexes[middle:]) or first

    async def _send_part(self, file: str, batch: Batch, indexes: Sequence[int]) -> str | None:
        if not indexes:
            return None
        batch_id = derive_batch_id(batch.id, indexes)
        body = encode_body(batch_id, [batch.events[index] for index in indexes])
        return await self._send(file, batch, indexes, batch_id, body)

    async def _post(self, body: bytes) -> _Response:
        """Retry until the response is final (202, 413 or 422), and return it."""
        totals = self._report.totals
        while True:
            await self._backoff.wait()
            totals.bytes_sent += len(body)
            try:
                # A large body is written in pieces, so that other requests make progress.
                data = body if len(body) <= _MAX_UNSTREAMED_BYTES else io.BytesIO(body)
                async with self._session.post(
                    self._url, data=data, headers=_HEADERS, allow_redirects=False
                ) as http_response:
                    response = _Response(http_response.status, await http_response.read())
                    retry_after = http_response.headers.get("Retry-After")
            except aiohttp.ClientConnectorCertificateError as error:
                raise CommandFailed(f"{self._base_url} is not trusted: {error}") from None
            except TimeoutError:
                self._backoff.record_failure(f"{self._base_url} does not answer in time", None)
            except (aiohttp.ClientError, OSError) as error:
                self._backoff.record_failure(
                    f"{self._base_url} cannot be reached ({type(error).__name__})", None
                )
            else:
                if response.status in (202, 413, 422):
                    self._backoff.record_success()
                    return response
                if response.status not in _RETRIED_STATUSES:
                    raise CommandFailed(self._describe_refusal(response))
                self._backoff.record_failure(
                    f"{self._base_url} answers {response.status}", parse_retry_after(retry_after, time.time())
                )
            totals.resent += 1

    def _record_receipt(self, response: _Response, sent: int) -> str:
        try:
            receipt = msgspec.json.decode(response.content, type=_Accepted).data
        except msgspec.DecodeError:
            raise CommandFailed(f"{self._base_url} answers 202 without a receipt. Is it a Pharos?") from None
        totals = self._report.totals
        totals.batches += 1
        totals.events_sent += sent
        totals.accepted += receipt.received
        return receipt.id

    def _find_faulty_events(self, refusal: _Refusal, indexes: Sequence[int]) -> dict[int, str]:
        """Return the message for each event that the response names, by its index in the whole batch."""
        faulty: dict[int, str] = {}
        for error in refusal.errors:
            match = _FAULTY_EVENT.match(error.field)
            if match is not None and int(match[1]) < len(indexes):
                field = error.field[match.end() :].removeprefix(".")
                faulty.setdefault(indexes[int(match[1])], f"{field} {error.message}".strip())
        if not faulty and all(error.field == "batch_id" for error in refusal.errors):
            # The refusal is not about events, so the next batch would be refused as well.
            raise CommandFailed(f"{self._base_url} refuses every batch: 422 {refusal.detail}")
        return faulty

    def _describe_refusal(self, response: _Response) -> str:
        detail = _read_refusal(response).detail
        advice = _ADVICE.get(response.status, "")
        return " ".join(part for part in (f"{self._url} answers {response.status}.", detail, advice) if part)


def _read_refusal(response: _Response) -> _Refusal:
    try:
        return msgspec.json.decode(response.content, type=_Refusal)
    except msgspec.DecodeError:
        return _Refusal()


def open_sending_session(key: str, connections: int, **options: Any) -> aiohttp.ClientSession:
    """Return a session for `Delivery` that sends the key with each request."""
    return aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {key}"},
        connector=aiohttp.TCPConnector(limit=connections),
        timeout=aiohttp.ClientTimeout(total=90, sock_connect=10),
        **options,
    )
