"""Sends files one after the other: cut in a thread, delivered by several at once, the place noted as they arrive."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from operator_cli.failure import CommandFailed
from operator_cli.sending.batches import Batch, Cutter
from operator_cli.sending.formats import FORMATS, LineFormat, detect_format
from operator_cli.sending.progress_file import Progress, ProgressFolder
from operator_cli.sending.read_ahead import ReadAhead
from operator_cli.sending.report import Report
from operator_cli.sending.sources import Source

# Lost by a kill, this much is sent again, with the IDs that it had.
_SAVE_SECONDS = 0.5
_PEEK_BYTES = 64 * 1024


class Deliver(Protocol):
    """Gives the receipt of a batch once the server has it; see `Delivery.deliver`."""

    async def __call__(self, file: str, batch: Batch, /) -> str | None: ...


@dataclass(slots=True)
class Sender:
    """How to send. `receipts` collects the last receipts of each file."""

    deliver: Deliver
    folder: ProgressFolder
    report: Report
    most_events: int
    concurrency: int
    pace: "Pace"
    format: LineFormat | None
    show_progress: Callable[[str, int], None]
    receipts: list[str] = field(default_factory=list)

    async def send(self, name: str) -> None:
        """Send what is new of one file. Raises `CommandFailed`; what was acknowledged by then is noted."""
        source = Source(name)
        try:
            line_format = self.format or _detect(source)
            with self.folder.open(source, self.most_events) as progress:
                if progress.most_events != self.most_events:
                    self.report.note(
                        f"{name} goes on with the batches of {progress.most_events} events that it was begun with."
                    )
                await self._send_rest(source, progress, line_format)
        finally:
            source.close()

    async def _send_rest(self, source: Source, progress: Progress, line_format: LineFormat) -> None:
        cutter = Cutter(progress.most_events, line_format)
        start = progress.start
        batches = cutter.cut(source, start, progress.planned)
        receipts: list[str] = []
        async with ReadAhead(batches, self.concurrency + 2, source.close) as ahead:
            try:
                async with asyncio.TaskGroup() as group:
                    saving = group.create_task(_save_now_and_then(progress))
                    workers = [
                        group.create_task(self._work(source, ahead, progress, receipts))
                        for _ in range(self.concurrency)
                    ]
                    await asyncio.gather(*workers)
                    saving.cancel()
            except* CommandFailed as failures:
                raise failures.exceptions[0] from None
        progress.finish()
        self.report.totals.files += 1
        if progress.start.offset == start.offset and start.offset:
            self.report.note(f"{source.name}: nothing new since it was sent last.")
        # Stored in the order of acceptance: when these are stored, so is all before them.
        self.receipts += receipts[-2 * self.concurrency :]

    async def _work(
        self, source: Source, ahead: "ReadAhead[Batch]", progress: Progress, receipts: list[str]
    ) -> None:
        while (batch := await ahead.next()) is not None:
            progress.take(batch)
            for fault in batch.faults:
                self.report.skip_line(source.name, fault.line, fault.reason)
            if batch.at_end:
                await asyncio.to_thread(progress.plan, batch.end.offset)
            await self.pace.wait_turn(len(batch.events))
            receipt = await self.deliver(source.name, batch)
            if receipt is not None:
                receipts.append(receipt)
            self.report.totals.bytes_read += batch.end.offset - batch.start
            done = batch.end.offset if batch.compressed_position is None else batch.compressed_position
            self.show_progress(source.name, done)
            batch.drop_events()
            progress.deliver(batch)


def _detect(source: Source) -> LineFormat:
    beginning = source.peek(_PEEK_BYTES)
    line_format = detect_format(beginning)
    if line_format is not None:
        return line_format
    if not beginning.strip():
        # Nothing in it yet.
        return FORMATS["ndjson"]
    raise CommandFailed(
        f"{source.name} begins neither with a JSON object nor with an access log line. Name its --format."
    )


async def _save_now_and_then(progress: Progress) -> None:
    while True:
        await asyncio.sleep(_SAVE_SECONDS)
        await asyncio.to_thread(progress.save)


class Pace:
    """At most so many events a second; None: as fast as they are taken."""

    def __init__(self, rate: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._next = clock()

    async def wait_turn(self, events: int) -> None:
        """Returns when so many may be sent."""
        if self._rate is None:
            return
        now = self._clock()
        mine = max(self._next, now)
        self._next = mine + events / self._rate
        if mine > now:
            await asyncio.sleep(mine - now)


async def send_files(sender: Sender, names: Sequence[str]) -> None:
    """Send one file after the other. Raises `CommandFailed` at the first that cannot be sent."""
    begun = time.monotonic()
    try:
        for name in names:
            await sender.send(name)
    finally:
        sender.report.totals.seconds = time.monotonic() - begun
