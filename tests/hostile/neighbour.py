"""Sends requests of another tenant's callers during an attack, and prints the results as a table."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

_PAUSE_SECONDS = 0.02


@dataclass(slots=True)
class Responses:
    """The responses to an application's callers."""

    seen: Counter[str] = field(default_factory=Counter)
    """Number of responses by status or error. A 200 from another program counts as `200 of another`."""
    slowest: float = 0.0
    """Seconds."""

    def __str__(self) -> str:
        report = ", ".join(f"{count} x {kind}" for kind, count in sorted(self.seen.items())) or "nothing"
        return f"{report}; slowest {self.slowest * 1000:.0f} ms"


async def send_request(
    session: aiohttp.ClientSession, url: str, answers: Responses, own: str, **headers: str
) -> None:
    """Send one request and record the response. `own`: text that only the application itself returns."""
    began = time.monotonic()
    try:
        async with session.get(url, headers=headers) as answer:
            text = await answer.text()
            kind = str(answer.status)
            if answer.status == 200 and own not in text:
                kind = "200 of another"
    except (aiohttp.ClientError, TimeoutError) as error:
        kind = type(error).__name__
    answers.seen[kind] += 1
    answers.slowest = max(answers.slowest, time.monotonic() - began)


@asynccontextmanager
async def keep_sending(port: int, host: str, own: str = "") -> AsyncIterator[Responses]:
    """Send requests to an application behind the proxy at this port, one after another, until the block ends."""
    answers, over = Responses(), asyncio.Event()

    async def ask_again() -> None:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
            while not over.is_set():
                await send_request(session, f"http://127.0.0.1:{port}/", answers, own, Host=host)
                await asyncio.sleep(_PAUSE_SECONDS)

    working = asyncio.create_task(ask_again())
    try:
        yield answers
    finally:
        over.set()
        await working


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under their columns, each as wide as its longest cell."""
    lines = [[str(cell) for cell in row] for row in (columns, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(columns))]
    for line in lines:
        print(" | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
