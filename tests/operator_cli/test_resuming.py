"""`pharos send` resumes: it sends the new part of a file, and no event twice."""

import asyncio
import gzip
import shutil
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from operator_cli.errors import CommandFailed
from operator_cli.ingest.sending.batches import BatchSplitter
from operator_cli.ingest.sending.line_formats import FORMATS
from operator_cli.ingest.sending.progress_file import ProgressFolder
from operator_cli.ingest.sending.sources import Source
from tests.operator_cli.fake_ingest import FakeIngest, answer, cut_connection, send, write_events

# Enough events to identify a file by its text alone, and too few for that.
LARGE, SMALL = range(205), range(25)


@pytest.mark.parametrize("numbers", [LARGE, SMALL])
async def test_sending_an_unchanged_file_again_sends_nothing(tmp_path: Path, numbers: range) -> None:
    file = tmp_path / "events"
    write_events(file, numbers)
    ingest = FakeIngest()
    async with ingest.serve() as url:
        await send(url, tmp_path / "state", file)
        ingest.requests.clear()
        report, messages = await send(url, tmp_path / "state", file, file, batch=7)
    assert not ingest.requests
    assert report.totals.files == 2
    assert messages == [f"pharos: {file}: nothing new since it was sent last."] * 2


@pytest.mark.parametrize("numbers", [LARGE, SMALL])
async def test_only_the_new_lines_of_a_grown_file_are_sent(tmp_path: Path, numbers: range) -> None:
    file = tmp_path / "events"
    write_events(file, numbers)
    ingest = FakeIngest()
    async with ingest.serve() as url:
        await send(url, tmp_path / "state", file)
        for step in range(1, 4):
            write_events(file, range(1000 * step, 1000 * step + 13), mode="a")
            report, _ = await send(url, tmp_path / "state", file, batch=5 * step)
            assert report.totals.events_sent == 13
    assert set(ingest.counts().values()) == {1}
    assert len(ingest.counts()) == len(numbers) + 39


@pytest.mark.parametrize("change", ["moved", "copied", "compressed"])
async def test_a_file_is_identified_by_its_text(tmp_path: Path, change: str) -> None:
    file, other = tmp_path / "events", tmp_path / "events.1"
    write_events(file, LARGE)
    ingest = FakeIngest()
    async with ingest.serve() as url:
        await send(url, tmp_path / "state", file)
        write_events(file, range(300, 310), mode="a")
        if change == "moved":
            file.rename(other)
            # A new file at the old path, as after a rotation.
            write_events(file, range(400, 410))
        elif change == "copied":
            shutil.copyfile(file, other)
        else:
            other.write_bytes(gzip.compress(file.read_bytes()))
            file.unlink()
        files = [path for path in (other, file) if path.exists()]
        await send(url, tmp_path / "state", *files)
    assert set(ingest.counts().values()) == {1}
    assert len(ingest.counts()) == len(LARGE) + (20 if change == "moved" else 10)


async def test_files_with_the_same_beginning_are_both_sent(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    write_events(one, LARGE)
    write_events(two, range(150))
    write_events(two, range(500, 600), mode="a")
    ingest = FakeIngest()
    async with ingest.serve() as url:
        for _ in range(2):
            await send(url, tmp_path / "state", one)
            await send(url, tmp_path / "state", two)
    counts = ingest.counts()
    assert set(map(int, counts)) == {*LARGE, *range(500, 600)}
    assert set(counts.values()) == {1}


async def test_a_rewritten_file_is_sent_again(tmp_path: Path) -> None:
    file = tmp_path / "events"
    write_events(file, range(5))
    ingest = FakeIngest()
    async with ingest.serve() as url:
        await send(url, tmp_path / "state", file)
        write_events(file, range(100, 130))
        await send(url, tmp_path / "state", file)
    assert set(map(int, ingest.counts())) == {*range(5), *range(100, 130)}


async def test_the_same_text_from_another_source_is_sent_as_well(tmp_path: Path) -> None:
    file = tmp_path / "events"
    write_events(file, SMALL)
    ingest = FakeIngest()
    async with ingest.serve() as url:
        await send(url, tmp_path / "state", file)
        await send(url, tmp_path / "state", file, source="second host")
        await send(url, tmp_path / "state", file, source="second host")
    assert set(ingest.counts().values()) == {2}


async def test_without_saved_progress_full_batches_have_the_same_ids(tmp_path: Path) -> None:
    file = tmp_path / "events"
    write_events(file, LARGE)
    ingest = FakeIngest()
    async with ingest.serve() as url:
        await send(url, tmp_path / "state", file)
        await send(url, tmp_path / "lost", file)
    assert set(ingest.counts().values()) == {1}
    assert not ingest.conflicts


async def test_a_short_batch_that_may_be_stored_is_resent_with_the_same_end(tmp_path: Path) -> None:
    file = tmp_path / "events"
    write_events(file, SMALL)
    ingest = FakeIngest()
    cut = cut_connection(ingest, stored=True)
    stored = asyncio.Barrier(3)

    async def store_in_silence(request: web.Request, body: dict[str, Any]) -> web.StreamResponse | None:
        # Stored, but the sender gets no response; once all is sent, its key is refused.
        if body["batch_id"] in ingest.stored:
            return await answer(401)(request, body)
        ingest.accept(body)
        await stored.wait()
        return await cut(request, body)

    ingest.rule = store_in_silence
    async with ingest.serve() as url:
        with pytest.raises(CommandFailed):
            await send(url, tmp_path / "state", file)
        assert len(ingest.events()) == 25
        write_events(file, range(25, 60), mode="a")
        ingest.rule = None
        # Another batch size would split text that may be stored already at other offsets.
        _, messages = await send(url, tmp_path / "state", file, batch=4)
    assert messages == [f"pharos: {file} continues with batches of 10 events, as it was started."]
    assert ingest.counts() == {str(n): 1 for n in range(60)}
    assert not ingest.conflicts


async def test_progress_does_not_skip_batches_delivered_out_of_order(tmp_path: Path) -> None:
    file = tmp_path / "events"
    write_events(file, range(40))
    folder = ProgressFolder(tmp_path / "state", "somewhere", "")
    source = Source(str(file))
    with folder.open(source, 10) as progress:
        batches = list(
            BatchSplitter(10, FORMATS["ndjson"]).split(source, progress.start, progress.short_ends)
        )
        for batch in batches:
            progress.begin(batch)
        progress.acknowledge(batches[3])
        progress.acknowledge(batches[1])
        assert progress.start.offset == 0
        progress.acknowledge(batches[0])
        assert progress.start == batches[1].end
    with folder.open(source, 10) as progress:
        assert progress.start == batches[1].end
    source.close()


async def test_one_file_is_sent_by_one_process_at_a_time(tmp_path: Path) -> None:
    file = tmp_path / "events"
    write_events(file, SMALL)
    source = Source(str(file))
    with (
        ProgressFolder(tmp_path / "state", "somewhere", "").open(source, 10),
        pytest.raises(CommandFailed, match="Another `pharos send`"),
        ProgressFolder(tmp_path / "state", "somewhere", "").open(source, 10),
    ):
        raise AssertionError
    # Progress is kept per destination.
    with ProgressFolder(tmp_path / "state", "elsewhere", "").open(source, 10) as progress:
        assert progress.start.offset == 0
    source.close()


async def test_an_unreadable_state_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "events"
    write_events(file, SMALL)
    ingest = FakeIngest()
    async with ingest.serve() as url:
        await send(url, tmp_path / "state", file)
        (state,) = (tmp_path / "state").glob("*.json")
        assert state.stat().st_mode & 0o777 == 0o600
        state.write_text("{")
        await send(url, tmp_path / "state", file)
    assert state.read_text() == "{"
    assert set(ingest.counts().values()) == {1}


async def test_files_that_cannot_be_sent_are_reported(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("time,level\n")
    (tmp_path / "broken.gz").write_bytes(gzip.compress(b'{"type":"log"}\n' * 1000)[:-20])
    (tmp_path / "empty").touch()
    ingest = FakeIngest()
    async with ingest.serve() as url:
        for name, words in (("missing", "No such file"), ("table.csv", "--format"), ("broken.gz", "ended")):
            with pytest.raises(CommandFailed, match=f"{name}.*{words}"):
                await send(url, tmp_path / "state", tmp_path / name)
        report, _ = await send(url, tmp_path / "state", tmp_path / "empty")
    assert (report.totals.files, report.totals.batches) == (1, 0)
