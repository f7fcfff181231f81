"""Another tenant's callers during an attack, and the table that a program prints at its end."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

_PAUSE_SECONDS = 0.02


@dataclass(slots=True)
class Answers:
    """What an application's callers were answered."""

    seen: Counter[str] = field(default_factory=Counter)
    """By status or error. A 200 of another program is `200 of another`."""
    slowest: float = 0.0
    """Seconds."""

    def __str__(self) -> str:
        told = ", ".join(f"{count} x {kind}" for kind, count in sorted(self.seen.items())) or "nothing"
        return f"{told}; slowest {self.slowest * 1000:.0f} ms"


async def ask(session: aiohttp.ClientSession, url: str, answers: Answers, own: str, **headers: str) -> None:
    """Send one request and record its answer. `own`: text that only the application itself answers with."""
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
async def asking(port: int, host: str, own: str = "") -> AsyncIterator[Answers]:
    """Ask an application behind the proxy at this port, one request after another, until the block ends."""
    answers, over = Answers(), asyncio.Event()

    async def ask_again() -> None:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
            while not over.is_set():
                await ask(session, f"http://127.0.0.1:{port}/", answers, own, Host=host)
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
