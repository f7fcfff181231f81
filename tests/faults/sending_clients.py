"""Clients that send to an edge continuously and record each response."""

import asyncio
import secrets
import time
from dataclasses import dataclass, field

import aiohttp

from pipeline_contracts.identifiers import open_receipt
from tests.otlp.requests import logs

EVENTS = 5
"""Events in each batch."""
RECEIPT_KEY = secrets.token_urlsafe(32)
"""The edge's PHAROS_RECEIPT_KEY."""


@dataclass(frozen=True, slots=True)
class Response:
    """A response of the edge."""

    batch: str
    status: int
    at: float
    seconds: float
    receipt: str = ""
    """ID of the receipt in the column store."""


@dataclass(slots=True)
class Client:
    """Sends small batches one after the other, and resends a refused batch as clients do."""

    session: aiohttp.ClientSession
    account: str
    sending: asyncio.Event = field(default_factory=asyncio.Event)
    answers: list[Response] = field(default_factory=list)

    async def run(self) -> None:
        for number in range(10**6):
            batch = f"{self.account} {number}"
            await self.sending.wait()
            while (await self.send(batch)).status != 202:
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.02)

    async def send(self, batch: str) -> Response:
        events = [{"type": "log", "id": f"{batch} {n}"} for n in range(EVENTS)]
        started = time.monotonic()
        async with self.session.post(
            "/api/v1/ingest", json={"batch_id": batch, "events": events}
        ) as response:
            body = await response.json()
        now = time.monotonic()
        receipt = ""
        if response.status == 202:
            receipt = open_receipt(body["data"]["id"], self.account, RECEIPT_KEY.encode()) or ""
            assert receipt
        self.answers.append(Response(batch, response.status, now, now - started, receipt))
        return self.answers[-1]

    def taken(self, since: float = 0.0) -> dict[str, str]:
        """Return the receipts of the batches that were acknowledged after this time, by batch."""
        return {a.batch: a.receipt for a in self.answers if a.status == 202 and a.at > since}


@dataclass(slots=True)
class OtherTopicClient:
    """Sends OTLP log records, which have a separate topic. Sends each request once."""

    session: aiohttp.ClientSession
    answers: list[Response] = field(default_factory=list)

    async def run(self) -> None:
        for number in range(10**6):
            mark = f"mark {number}"
            body = logs({"body": {"stringValue": mark}})
            started = time.monotonic()
            async with self.session.post("/api/v1/otlp/v1/logs", json=body) as response:
                await response.read()
            now = time.monotonic()
            self.answers.append(Response(mark, response.status, now, now - started))
            await asyncio.sleep(0.02)
