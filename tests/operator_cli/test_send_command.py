"""`pharos send` as a process: exit statuses, output, and kills."""

import asyncio
import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.operator_cli.fake_ingest import FakeIngest, answer, write_events
from tests.support import fork_server
from tests.support.platform_process import PHAROS


def start(folder: Path, *arguments: str, stdin: int = subprocess.DEVNULL) -> "subprocess.Popen[bytes]":
    return fork_server.popen(
        [str(PHAROS), "send", *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


async def run(folder: Path, *arguments: str, text: bytes | None = None) -> tuple[int, str, str]:
    """Return exit status, standard output and standard error."""
    process = start(folder, *arguments, stdin=subprocess.DEVNULL if text is None else subprocess.PIPE)
    out, error = await asyncio.to_thread(process.communicate, text)
    return process.returncode, out.decode(), error.decode()


def write_credentials(folder: Path, url: str) -> None:
    (folder / ".pharos").mkdir(exist_ok=True)
    document = {"base_url": url, "ingest_key": "the-key", "environment_id": "env_1"}
    (folder / ".pharos" / "credentials.json").write_text(json.dumps(document))


async def test_files_are_sent_to_the_running_platform_with_a_summary(tmp_path: Path) -> None:
    write_events(tmp_path / "events.ndjson", range(150))
    ingest = FakeIngest()
    ingest.receipt_statuses += ["queued", "stored", "queued", "duplicate"]
    async with ingest.serve() as url:
        write_credentials(tmp_path, url)
        status, out, error = await run(tmp_path, "events.ndjson", "--wait", "--json")
        assert (status, error) == (0, "")
        summary = json.loads(out)
        again = await run(tmp_path, "events.ndjson")
    assert (summary["files"], summary["events_sent"], summary["batches"]) == (1, 150, 2)
    assert summary["accepted"] == 150
    assert not ingest.receipt_statuses
    assert again[0] == 0
    assert "events sent" in again[1]
    assert "nothing new" in again[2]
    assert len(ingest.requests) == 2


async def test_a_batch_that_could_not_be_stored_is_a_failure(tmp_path: Path) -> None:
    write_events(tmp_path / "events.ndjson", range(5))
    ingest = FakeIngest()
    ingest.receipt_statuses.append("failed")
    async with ingest.serve() as url:
        write_credentials(tmp_path, url)
        status, _, error = await run(tmp_path, "events.ndjson", "--wait")
    assert status == 1
    assert "could not be stored" in error and "no room" in error


async def test_files_are_sent_to_an_address_with_a_key_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("the-key\n")
    write_events(tmp_path / "events.ndjson", range(5))
    ingest = FakeIngest()
    async with ingest.serve() as url:
        status, _, error = await run(tmp_path, "events.ndjson", "--url", url + "/", "--key-file", "key")
        alone = await run(tmp_path, "events.ndjson", "--url", url)
    assert (status, error) == (0, "")
    assert len(ingest.events()) == 5
    assert (alone[0], "go together" in alone[2]) == (1, True)


async def test_standard_input_is_sent_every_time(tmp_path: Path) -> None:
    ingest = FakeIngest()
    async with ingest.serve() as url:
        write_credentials(tmp_path, url)
        for _ in range(2):
            status, _, error = await run(tmp_path, "-", text=b'oops\n{"type":"log","id":"1"}')
            assert status == 1 and "--format" in error
            status, _, error = await run(
                tmp_path, "-", "--format", "ndjson", text=b'oops\n{"type":"log","id":"1"}'
            )
            assert (status, error.partition(" JSON")[0]) == (0, "pharos: -:1: is not valid")
    assert ingest.counts() == {"1": 2}


async def test_a_refused_key_is_reported_without_retries(tmp_path: Path) -> None:
    write_events(tmp_path / "events.ndjson", range(5))
    ingest = FakeIngest()
    ingest.rule = answer(401, {"detail": "This key is not known."})
    async with ingest.serve() as url:
        write_credentials(tmp_path, url)
        status, _, error = await run(tmp_path, "events.ndjson")
    assert status == 1
    assert "This key is not known. Is it the ingest key of this server?" in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    "arguments", [("--batch", "0"), ("--batch", "1001"), ("--rate", "0"), ("--rate", "x")]
)
async def test_wrong_arguments_are_refused(tmp_path: Path, arguments: tuple[str, str]) -> None:
    status, _, error = await run(tmp_path, "events.ndjson", *arguments)
    assert (status, "usage: pharos send" in error) == (2, True)


async def test_after_an_interrupt_the_same_command_continues(tmp_path: Path) -> None:
    write_events(tmp_path / "events.ndjson", range(500))
    ingest = FakeIngest()
    # One request of each of the four senders, so that none in flight is counted later.
    all_wait = asyncio.Barrier(5)

    async def stop_at_half(request: web.Request, body: dict[str, Any]) -> web.StreamResponse | None:
        if len(ingest.stored) < 20:
            return None
        await all_wait.wait()
        # These requests get no response.
        await asyncio.sleep(3600)
        return None

    ingest.rule = stop_at_half
    async with ingest.serve() as url:
        write_credentials(tmp_path, url)
        process = start(tmp_path, "events.ndjson", "--batch", "10")
        await all_wait.wait()
        process.send_signal(signal.SIGINT)
        _, error = await asyncio.to_thread(process.communicate)
        assert process.returncode == 130
        assert b"Run the same command again" in error and b"Traceback" not in error
        (state,) = (tmp_path / ".pharos" / "send-state").glob("*.json")
        acknowledged = json.loads(state.read_bytes())["line"] // 10
        ingest.rule = None
        sent = len(ingest.requests)
        status, _, _ = await run(tmp_path, "events.ndjson", "--batch", "10")
    assert status == 0
    assert ingest.counts() == {str(n): 1 for n in range(500)}
    # Batches that were acknowledged before the interrupt are not sent again. Of the 20 batches with a response, those
    # after a batch without one count as not acknowledged.
    assert 0 < acknowledged <= 20
    assert len(ingest.requests) - sent == 50 - acknowledged


async def test_each_event_is_stored_once_despite_kills(tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson"
    write_events(file, range(400))
    ingest = FakeIngest()
    kill_at = asyncio.Event()
    kills = 0

    async def rule(request: web.Request, body: dict[str, Any]) -> web.StreamResponse | None:
        # Every 23rd request is stored without a response, and the sender is killed while it is in flight.
        if len(ingest.requests) % 23 == 0 and kills < 6:
            ingest.accept(body)
            kill_at.set()
            await asyncio.sleep(3600)
        return None

    ingest.rule = rule
    async with ingest.serve() as url:
        write_credentials(tmp_path, url)
        while kills < 6:
            process = start(tmp_path, "events.ndjson", "--batch", "7")
            ended = asyncio.create_task(asyncio.to_thread(process.wait))
            killing = asyncio.create_task(kill_at.wait())
            await asyncio.wait({ended, killing}, return_when=asyncio.FIRST_COMPLETED)
            killing.cancel()
            if not ended.done():
                process.kill()
            await ended
            await asyncio.to_thread(process.communicate)
            kill_at.clear()
            kills += 1
            write_events(file, range(400 + 50 * (kills - 1), 400 + 50 * kills), mode="a")
        status, _, error = await run(tmp_path, "events.ndjson", "--batch", "9")
    assert status == 0, error
    assert not ingest.conflicts
    assert ingest.counts() == {str(n): 1 for n in range(700)}
