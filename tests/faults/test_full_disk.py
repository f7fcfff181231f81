"""The disk of `pharos up` fills up under load and gets space again: no restart, no lost acknowledged events, no
duplicates."""

import contextlib
import json
import os
import subprocess
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.records import Position
from storage_backends.event_log.sqlite import open_sqlite_log
from storage_backends.event_log.sqlite_consumer import SqliteLogConsumer
from storage_backends.event_log.sqlite_writer import Bounds
from tests.support.platform_process import PlatformProcess
from tests.support.waits import wait_within

_MB = 2**20
_EVENTS = 100
_PAUSE_SECONDS = 0.02


@dataclass(slots=True)
class SmallDisk:
    """A separate file system, which a file fills to the last block."""

    folder: Path

    def fill(self) -> None:
        with contextlib.suppress(OSError), open(self.folder / "ballast", "ab", buffering=0) as ballast:
            while True:
                ballast.write(bytes(_MB))
        # The last bytes, too few for a whole write.
        with contextlib.suppress(OSError), open(self.folder / "ballast", "ab", buffering=0) as ballast:
            while True:
                ballast.write(bytes(4096))

    def free(self) -> None:
        (self.folder / "ballast").unlink()


@contextlib.contextmanager
def _small_disk(tmp_path: Path, size: str = "512m") -> Iterator[SmallDisk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "pharos-test-disk", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this machine cannot mount a file system")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


class Senders:
    """Clients for each kind of traffic that send continuously, and the responses."""

    def __init__(self, platform: PlatformProcess) -> None:
        self.answers: Counter[tuple[str, int]] = Counter()
        self.batches: dict[str, int] = {}
        """Status by batch ID."""
        self.views: dict[str, int] = {}
        """Status by the page view's ID."""
        self._platform = platform
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._send, args=(one,))
            for one in (self._batch, self._view, self._deployment)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _send(self, send_one: Callable[[], tuple[str, int]]) -> None:
        while not self._stop.wait(_PAUSE_SECONDS):
            kind, status = send_one()
            self.answers[kind, status] += 1

    def _batch(self) -> tuple[str, int]:
        batch = uuid.uuid4().hex
        # Incompressible, so that it needs disk space.
        events = [{"type": "log", "title": os.urandom(300).hex()} for _ in range(_EVENTS)]
        self.batches[batch] = self._platform.ingest({"batch_id": batch, "events": events}).status
        return "ingest", self.batches[batch]

    def _view(self) -> tuple[str, int]:
        view = str(uuid.uuid4())
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        event = {"id": view, "type": "pageview", "path": "/", "occurred_at": now}
        site = self._platform.credentials["site"]
        answer = self._platform.request(
            "POST",
            f"/api/v1/collect/{site['tracker_id']}",
            body=json.dumps({"events": [event]}).encode(),
            headers={"Content-Type": "application/json", "Origin": site["origin"], "User-Agent": "Firefox"},
        )
        self.views[view] = answer.status
        return "collect", answer.status

    def _deployment(self) -> tuple[str, int]:
        key = self._platform.credentials["ingest_key"]
        answer = self._platform.request(
            "POST",
            "/api/v1/deployments",
            body=json.dumps({"deployment_id": uuid.uuid4().hex, "version": "x" * 100}).encode(),
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {key}"},
        )
        return "deployment", answer.status


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_full_disk_loses_no_acknowledged_events(tmp_path: Path) -> None:
    """`tests/storage_backends/test_sqlite_log_faults.py` covers a full disk for the log alone, in every run."""
    with _small_disk(tmp_path) as disk:
        platform = PlatformProcess(disk.folder / "data")
        # On another disk: writing the response file must not fail.
        platform.log = Path(tempfile.mkdtemp(dir=tmp_path)) / "log"
        senders = None
        try:
            platform.start()
            senders = Senders(platform)
            _until(senders, lambda: all(senders.answers[kind] >= 3 for kind in _ACCEPTED))
            disk.fill()
            _until(senders, lambda: senders.answers["ingest", 503] >= 20)
            assert platform.request("GET", "/health/ready").status == 503
            disk.free()
            wait_within(
                30, lambda: platform.request("GET", "/health/ready").status == 200, platform.log.read_text
            )
            after = senders.answers.copy()
            _until(senders, lambda: all(senders.answers[kind] >= after[kind] + 10 for kind in _ACCEPTED))
            senders.stop()
            platform.wait_until_consumed()
            _check(platform, senders)
        finally:
            if senders is not None:
                senders.stop()
            if platform._process is not None:
                platform.kill()


@pytest.mark.full
@pytest.mark.timeout(600)
def test_people_sign_in_and_free_space_on_a_full_disk(tmp_path: Path) -> None:
    """This holds even after a restart: without the disk reserve, no database would open."""
    with _small_disk(tmp_path) as disk:
        platform = PlatformProcess(disk.folder / "data")
        platform.log = Path(tempfile.mkdtemp(dir=tmp_path)) / "log"
        reserve = platform.data / "disk-reserve"
        try:
            platform.start()
            printed = platform.run("sign-in-link", "--quiet", "owner@localhost").stdout.strip()
            body = {"link": printed.rpartition("=")[2], "password": "an evening by the harbour"}
            before = _browse(platform, "POST", "/v1/session/link", body)
            wait_within(30, reserve.exists, platform.log.read_text)
            disk.fill()
            _browse(platform, "GET", "/v1/overview", cookie=before)
            assert reserve.exists()
            body = {"email": "owner@localhost", "password": "an evening by the harbour"}
            after = _browse(platform, "POST", "/v1/session", body)
            _browse(platform, "GET", "/v1/storage", cookie=after)
            retention = {"kind": "telemetry_events", "days": 3}
            _browse(platform, "PUT", "/v1/storage/retention", retention, cookie=after)
            disk.free()
            wait_within(90, reserve.exists, platform.log.read_text)
            assert platform.stop() == 0
            disk.fill()
            # Not ready, because the event log accepts no records on such a full disk.
            platform.start(ready=503)
            assert not reserve.exists()
            _browse(platform, "GET", "/v1/overview", cookie=before)
            _browse(platform, "POST", "/v1/session", body)
        finally:
            if platform._process is not None:
                platform.kill()


def _browse(platform: PlatformProcess, method: str, path: str, body: object = None, cookie: str = "") -> str:
    """Send the requests of a page; return the cookie of the session."""
    headers = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin", "Cookie": cookie}
    sent = None if body is None else json.dumps(body).encode()
    answer = platform.request(method, f"/api{path}", body=sent, headers=headers)
    assert answer.status < 300, (path, answer.status, answer.json)
    return (answer.headers["Set-Cookie"] or cookie).partition(";")[0]


_ACCEPTED = [("ingest", 202), ("collect", 202), ("deployment", 201)]


def _until(senders: Senders, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline, senders.answers
        time.sleep(0.05)


def _check(platform: PlatformProcess, senders: Senders) -> None:
    assert {status for _, status in senders.answers} <= {200, 201, 202, 503}, senders.answers
    rows = platform.query("SELECT batch_id, count() AS events FROM pharos.telemetry_events GROUP BY batch_id")
    stored = {row["batch_id"]: int(row["events"]) for row in rows}
    assert set(stored.values()) == {_EVENTS}
    accepted = {batch for batch, status in senders.batches.items() if status == 202}
    assert accepted <= stored.keys() <= senders.batches.keys()
    seen = platform.query("SELECT toString(id) AS id, count() AS rows FROM pharos.pageviews GROUP BY id")
    assert {int(row["rows"]) for row in seen} == {1}
    assert {view for view, status in senders.views.items() if status == 202} <= {row["id"] for row in seen}


@pytest.mark.full
async def test_the_log_survives_a_full_disk_at_any_write(tmp_path: Path) -> None:
    """Write-ahead log, checkpoints and frames reach the end of the disk at other positions in each round."""
    with _small_disk(tmp_path, "24m") as disk:
        log = await open_sqlite_log(disk.folder / "log.sqlite", Bounds(2**30, 2**20, 0))
        consumer = SqliteLogConsumer(log, "group", "topic")
        acknowledged: list[bytes] = []
        offset, refused = 0, 0
        for round_ in range(30):
            disk.fill()
            os.truncate(
                disk.folder / "ballast", max(0, (disk.folder / "ballast").stat().st_size - round_ * 40_000)
            )
            for _ in range(6):
                value = os.urandom(150_000)
                try:
                    await log.append("topic", b"k", b"", value)
                    acknowledged.append(value)
                except StorageUnavailable:
                    refused += 1
            if round_ % 3 == 0:
                with contextlib.suppress(StorageUnavailable):
                    await consumer.commit(0, Position(offset))
            disk.free()
            await log.append("topic", b"k", b"", b"%d" % round_)
            acknowledged.append(b"%d" % round_)
            records = await consumer.read(0, offset, None, 2**30, 0)
            assert [record.value for record in records] == acknowledged
            offset += len(records)
            acknowledged.clear()
            await consumer.commit(0, Position(offset))
            assert (log.stored_bytes(), log.stalled_reason()) == (0, None)
        assert refused > 30
        await log.close()
