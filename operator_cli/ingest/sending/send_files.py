"""Send files one after the other: a thread splits them, several tasks deliver batches, the progress is saved."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from operator_cli.errors import CommandFailed
from operator_cli.ingest.sending.batches import Batch, BatchSplitter
from operator_cli.ingest.sending.line_formats import FORMATS, LineFormat, detect_format
from operator_cli.ingest.sending.progress_file import Progress, ProgressFolder
from operator_cli.ingest.sending.read_ahead import ReadAhead
from operator_cli.ingest.sending.report import Report
from operator_cli.ingest.sending.sources import Source

# After a kill, the batches of this interval are sent again, with the same IDs.
_SAVE_SECONDS = 0.5
_PEEK_BYTES = 64 * 1024


class Deliver(Protocol):
    """Delivers a batch and returns its receipt ID; see `Delivery.deliver`."""

    async def __call__(self, file: str, batch: Batch, /) -> str | None: ...


@dataclass(slots=True)
class Sender:
    """Sends files with these settings. `receipts` collects the last receipt IDs of each file."""

    deliver: Deliver
    folder: ProgressFolder
    report: Report
    max_events: int
    concurrency: int
    rate_limit: "RateLimit"
    format: LineFormat | None
    show_progress: Callable[[str, int], None]
    receipts: list[str] = field(default_factory=list)

    async def send(self, name: str) -> None:
        """Send the new part of one file. Raises `CommandFailed`, after saving what was acknowledged."""
        source = Source(name)
        try:
            line_format = self.format or _detect_format(source)
            with self.folder.open(source, self.max_events) as progress:
                if progress.max_events != self.max_events:
                    self.report.print_message(
                        f"{name} continues with batches of {progress.max_events} events, as it was started."
                    )
                await self._send_rest(source, progress, line_format)
        finally:
            source.close()

    async def _send_rest(self, source: Source, progress: Progress, line_format: LineFormat) -> None:
        splitter = BatchSplitter(progress.max_events, line_format)
        start = progress.start
        batches = splitter.split(source, start, progress.short_ends)
        receipts: list[str] = []
        async with ReadAhead(batches, self.concurrency + 2, source.close) as ahead:
            try:
                async with asyncio.TaskGroup() as group:
                    saving = group.create_task(_save_periodically(progress))
                    workers = [
                        group.create_task(self._send_batches(source, ahead, progress, receipts))
                        for _ in range(self.concurrency)
                    ]
                    await asyncio.gather(*workers)
                    saving.cancel()
            except* CommandFailed as failures:
                raise failures.exceptions[0] from None
        progress.finish()
        self.report.totals.files += 1
        if progress.start.offset == start.offset and start.offset:
            self.report.print_message(f"{source.name}: nothing new since it was sent last.")
        # Batches are stored in the order of acceptance: once these are stored, all earlier ones are.
        self.receipts += receipts[-2 * self.concurrency :]

    async def _send_batches(
        self, source: Source, ahead: "ReadAhead[Batch]", progress: Progress, receipts: list[str]
    ) -> None:
        while (batch := await ahead.next()) is not None:
            progress.begin(batch)
            for fault in batch.faults:
                self.report.skip_line(source.name, fault.line, fault.reason)
            if batch.at_end:
                await asyncio.to_thread(progress.add_short_end, batch.end.offset)
            await self.rate_limit.wait(len(batch.events))
            receipt = await self.deliver(source.name, batch)
            if receipt is not None:
                receipts.append(receipt)
            self.report.totals.bytes_read += batch.end.offset - batch.start
            done = batch.end.offset if batch.compressed_position is None else batch.compressed_position
            self.show_progress(source.name, done)
            batch.drop_events()
            progress.acknowledge(batch)


def _detect_format(source: Source) -> LineFormat:
    beginning = source.peek(_PEEK_BYTES)
    line_format = detect_format(beginning)
    if line_format is not None:
        return line_format
    if not beginning.strip():
        # An empty file.
        return FORMATS["ndjson"]
    raise CommandFailed(
        f"{source.name} begins neither with a JSON object nor with an access log line. Name its --format."
    )


async def _save_periodically(progress: Progress) -> None:
    while True:
        await asyncio.sleep(_SAVE_SECONDS)
        await asyncio.to_thread(progress.save)


class RateLimit:
    """Limits sending to `rate` events a second; None means no limit."""

    def __init__(self, rate: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._next = clock()

    async def wait(self, events: int) -> None:
        """Return when this number of events may be sent."""
        if self._rate is None:
            return
        now = self._clock()
        start = max(self._next, now)
        self._next = start + events / self._rate
        if start > now:
            await asyncio.sleep(start - now)


async def send_files(sender: Sender, names: Sequence[str]) -> None:
    """Send one file after the other. Raises `CommandFailed` at the first that cannot be sent."""
    started = time.monotonic()
    try:
        for name in names:
            await sender.send(name)
    finally:
        sender.report.totals.seconds = time.monotonic() - started
