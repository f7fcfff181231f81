"""Lines of output files are stored as log records exactly once, despite all kinds of faults."""

import asyncio
import errno
import logging
import os
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import aiohttp
import pytest
from aiohttp import web
from sqlalchemy.exc import OperationalError

from control_domain.projects.application_keys import ApplicationKey
from control_domain.sealing import CannotOpen
from deployer.log_lines.masking import Mask
from deployer.output_logs import batches, deployment_masks, ship_output
from deployer.output_logs.account_limits import AccountLimits
from deployer.output_logs.line_budget import LineBudget
from deployer.output_logs.progress import read_progress
from deployer.output_logs.ship_output import OutputShipper
from deployer.output_logs.stopped_outputs import StoppedOutputs
from deployer.processes import output_file
from deployer.processes.output_file import truncate_output
from pipeline_contracts.times import from_epoch_ms
from tests.deployer.unreadable import unreadable
from tests.operator_cli.fake_ingest import FakeIngest, Fault, answer, cut_connection

_ENVIRONMENT = "env_a"


@dataclass
class _Telemetry:
    """The part of `ApplicationTelemetry` that shipping uses."""

    url: str
    keys: dict[str, ApplicationKey]
    reads: int = 0
    fault: Exception | None = None
    values: list[str] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    sealed: Exception | None = None
    on_key: list[Callable[[ApplicationKey], None]] = field(default_factory=list)

    async def find_keys(self, environment_ids: Any) -> dict[str, ApplicationKey]:
        self.reads += 1
        if self.fault is not None:
            raise self.fault
        return {name: self.keys[name] for name in environment_ids if name in self.keys}

    async def explain_missing_key(self, environment_id: str) -> str | None:
        return (
            None
            if environment_id in self.removed
            else f"environment {environment_id} has no usable ingest key"
        )

    async def read_values(self, environment_id: str, deployment_id: int) -> list[str]:
        if self.sealed is not None:
            raise self.sealed
        return self.values


@dataclass
class _World:
    """A deployer's output folder, and the ingest that it ships to."""

    folder: Path
    ingest: FakeIngest
    telemetry: _Telemetry
    session: aiohttp.ClientSession
    now: float = field(default_factory=time.time)
    shipper: OutputShipper = field(init=False)

    def __post_init__(self) -> None:
        self.budget = LineBudget(lambda: self.now)
        self.restart()

    @property
    def path(self) -> Path:
        return self.folder / _ENVIRONMENT / "7" / "web.1.log"

    def restart(self) -> None:
        """Discard everything in memory, as the kill of a deployer does."""
        telemetry: Any = self.telemetry
        self.shipper = OutputShipper(self.folder, telemetry, self.session, self.budget, lambda: self.now)

    def print(self, text: str | bytes) -> None:
        """Append to the output, as a process does."""
        with self.path.open("ab") as file:
            file.write(text.encode() if isinstance(text, str) else text)

    async def settle(self) -> None:
        """Ship until no line is left. Time passes between the passes."""
        for _ in range(200):
            if not await self.shipper.ship_once() and not self.shipper._due:
                return
            self.now += 5
        raise AssertionError(f"lines are left: {self.shipper._batches._progress}")

    @property
    def titles(self) -> list[str]:
        return [event["title"] for event in self.ingest.events()]


@asynccontextmanager
async def _world(tmp_path: Path, rate: float = 1e6, burst: int = 50_000) -> AsyncIterator[_World]:
    ingest = FakeIngest()
    key = ApplicationKey("the-key", _ENVIRONMENT, "production", "shop", 1, rate, burst)
    async with ingest.serve() as base_url, aiohttp.ClientSession() as session:
        telemetry = _Telemetry(base_url.removesuffix("/api"), {_ENVIRONMENT: key})
        world = _World(tmp_path / "outputs", ingest, telemetry, session)
        world.path.parent.mkdir(parents=True)
        yield world


async def test_lines_become_log_records(tmp_path: Path) -> None:
    async with _world(tmp_path) as world:
        world.print('\x1b[32mstarted\x1b[0m\n\n{"level":"warn","msg":"slow","ms":12}\nno end yet')
        await world.settle()
        assert world.titles == ["started", "slow"]
        first, second = world.ingest.events()
        assert (first["severity"], first["service"]) == ("info", "shop")
        place = {"pharos.process": "web", "pharos.instance": "web.1", "pharos.deployment": 7}
        assert first["attributes"] == place
        assert (second["severity"], second["attributes"]) == ("warning", {"ms": 12, **place})
        # The supervisor ends the line if the process ends.
        world.print("\n")
        await world.settle()
        assert world.titles[2:] == ["no end yet"]
        # A second pass over an unchanged file sends nothing.
        world.restart()
        await world.settle()
        assert len(world.ingest.requests) == len(world.ingest.stored)


async def test_lines_of_one_write_have_ascending_times_and_stack_traces_are_whole(tmp_path: Path) -> None:
    trace = (
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    1 / 0\nZeroDivisionError: x\n'
    )
    async with _world(tmp_path) as world:
        # More lines than a batch has: the second one continues after the times of the first one.
        world.print("".join(f"line {n}\n" for n in range(800)) + trace + "end\n")
        at_ms = world.path.stat().st_mtime_ns // 10**6
        await world.shipper.ship_once()
        world.restart()
        await world.settle()
        assert len(world.ingest.stored) == 2
        events = world.ingest.events()
        assert (len(events), events[-2]["title"], events[-2]["severity"]) == (802, trace.rstrip(), "error")
        times = [datetime.fromisoformat(event["timestamp"]) for event in events]
        assert times == sorted({*times})
        assert times[0] == from_epoch_ms(at_ms) and times[-1] < from_epoch_ms(at_ms + 1)


@pytest.mark.parametrize("seed", range(8))
async def test_each_line_is_stored_once_despite_kills_and_faults(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    async with _world(tmp_path) as world:
        printed = 0
        for _ in range(60):
            for _ in range(rng.randrange(40)):
                world.print(f"line {printed} " + "x" * rng.randrange(60) + "\n")
                printed += 1
            match rng.randrange(8):
                case 0:
                    world.restart()
                case 1:
                    # The batch is stored, but the response is lost, and the deployer is killed before it repeats the
                    # batch.
                    world.ingest.faults.append(cut_connection(world.ingest, stored=True))
                    await world.shipper.ship_once()
                    world.restart()
                case 2:
                    world.ingest.faults.append(cut_connection(world.ingest, stored=False))
                case 3:
                    world.ingest.faults.append(answer(429, **{"Retry-After": "2"}))
                case 4:
                    world.ingest.faults.append(answer(503))
                case 5:
                    # Larger than the waiting lines, so all of them stay readable.
                    truncate_output(world.path, 4000) if world.path.exists() else None
            if rng.random() < 0.8:
                await world.shipper.ship_once()
            if rng.random() < 0.1:
                task = asyncio.create_task(world.shipper.ship_once())
                await asyncio.sleep(0.001)
                task.cancel()
                await asyncio.wait({task})
                world.restart()
            world.now += rng.randrange(3)
        await world.settle()
        numbers = [int(title.split()[1]) for title in world.titles if title.startswith("line ")]
        notes = [title for title in world.titles if not title.startswith("line ")]
        assert len(numbers) == len(set(numbers))
        assert numbers == sorted(numbers)
        # A truncation keeps 4,000 bytes. Older bytes that were not read are reported as lost.
        assert notes or numbers == list(range(printed)), (printed, len(numbers))
        assert world.ingest.conflicts == []


async def test_lines_that_were_moved_by_a_truncation_are_stored(tmp_path: Path) -> None:
    async with _world(tmp_path) as world:
        world.print("".join(f"line {number}\n" for number in range(10)))
        await world.settle()
        world.print("".join(f"line {number}\n" for number in range(10, 30)) + "half")
        truncate_output(world.path, 200)
        world.print(" of it is left out\nline 30\n")
        world.restart()
        await world.settle()
        assert world.titles == [*(f"line {number}" for number in range(30)), "half", "line 30"]


async def test_lost_bytes_are_reported(tmp_path: Path) -> None:
    async with _world(tmp_path) as world:
        world.print("a" * 99 + "\n")
        await world.settle()
        for number in range(2):
            world.print(f"{number}" * 99 + "\n")
            truncate_output(world.path, 10)
        world.print("after\n")
        await world.settle()
        assert world.titles[1].startswith("Pharos left out about ")
        assert world.titles[-1] == "after"


async def test_an_application_that_truncates_its_output_starts_anew(tmp_path: Path) -> None:
    async with _world(tmp_path) as world:
        world.print("one\ntwo\n")
        await world.settle()
        os.truncate(world.path, 0)
        await world.settle()
        world.print("one\n")
        await world.settle()
        assert world.titles == ["one", "two", "one"]


async def test_a_flood_is_bounded_by_a_share_of_the_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "_MAX_BACKLOG", 20_000)
    monkeypatch.setattr(batches, "_KEPT_BACKLOG", 2_000)
    async with _world(tmp_path, rate=50) as world:
        # 10 lines a second, and 100 at once.
        for number in range(10_000):
            world.print(f"line {number:05d}\n")
        for _ in range(5):
            await world.shipper.ship_once()
        assert len(world.titles) == 100
        world.now += 1
        await world.shipper.ship_once()
        await world.settle()
        stored = [title for title in world.titles if title.startswith("line ")]
        notes = [event for event in world.ingest.events() if not event["title"].startswith("line ")]
        assert stored[-1] == "line 09999"
        assert len(notes) == 1 and notes[0]["severity"] == "warning"
        left_out = int(notes[0]["title"].split()[3].replace(",", ""))
        assert left_out + len(stored) == 10_000 and left_out > 9_000


async def test_continuing_flood_is_skipped_immediately(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "_FLOOD_BYTES", 20_000)
    monkeypatch.setattr(batches, "_KEPT_FLOOD", 1_000)
    async with _world(tmp_path, rate=50) as world:
        for second in range(6):
            world.print("".join(f"line {second} {number:05d}\n" for number in range(5_000)))
            if second % 2:
                truncate_output(world.path, 40_000)
            await world.shipper.ship_once()
            await world.shipper.ship_once()
            world.now += 1
        world.print("calm again\n")
        await world.settle()
        assert world.titles[-1] == "calm again"
        assert len(world.titles) < 400
        assert any(title.startswith("Pharos left out about ") for title in world.titles)


async def test_a_flood_leaves_the_budget_of_the_account_to_other_outputs(tmp_path: Path) -> None:
    async with _world(tmp_path, rate=50) as world:
        for name in ("a", "b", "c"):
            (world.path.parent / f"{name}.1.log").write_text("".join(f"{name} {n}\n" for n in range(5_000)))
        for _ in range(60):
            await world.shipper.ship_once()
            world.now += 1
        stored = [title.split()[0] for title in world.titles]
        assert len(stored) <= 100 + 60 * 10
        assert all(stored.count(name) >= 200 for name in ("a", "b", "c")), stored


@pytest.mark.parametrize(("rate", "burst"), [(10, 20), (100, 200), (1000, 2000)])
async def test_files_that_are_read_at_once_share_the_budget(tmp_path: Path, rate: float, burst: int) -> None:
    async with _world(tmp_path, rate, burst) as world:
        for number in range(1, 9):
            (world.path.parent / f"web.{number}.log").write_text(
                "".join(f"{number} {line}\n" for line in range(3000))
            )
        await world.shipper.ship_once()
        assert world.budget.most_events(rate, burst) <= len(world.titles) <= world.budget.most(rate)


async def test_lines_that_are_not_sent_cost_no_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _world(tmp_path, rate=50) as world:

        def count_left() -> int:
            return world.budget.available(1, 50)

        world.print("".join(f"line {number}\n" for number in range(60)))
        with monkeypatch.context() as full:
            full.setattr(batches, "write_progress", Mock(side_effect=OSError(errno.ENOSPC, "no space")))
            await world.shipper.ship_once()
        assert count_left() == 100
        # The edge refuses 60 lines, then accepts 30.
        world.ingest.faults.append(answer(413))
        await world.shipper.ship_once()
        assert count_left() == 100
        await world.shipper.ship_once()
        assert (len(world.titles), count_left()) == (30, 70)
        # A response that is lost gives nothing back, and the repetition takes nothing.
        world.ingest.faults.append(cut_connection(world.ingest, stored=True))
        for _ in range(3):
            await world.shipper.ship_once()
        left = count_left()
        assert left < 70
        world.now += 1
        await world.shipper.ship_once()
        assert count_left() == left + 10
        # The output is removed before its batch is accepted.
        await world.settle()
        world.now += 20
        world.print("x\n" * 20)
        world.ingest.faults.append(answer(503))
        await world.shipper.ship_once()
        assert count_left() == 80
        world.path.unlink()
        await world.shipper.ship_once()
        assert count_left() == 100


async def test_a_line_without_an_end_is_cut(tmp_path: Path) -> None:
    async with _world(tmp_path) as world:
        world.print(b"x" * 700_000 + b"\nnext\n")
        await world.settle()
        cut, following = world.titles
        assert (len(cut), cut[-11:], following) == (8192, "(line cut)"[-11:].rjust(11), "next")


async def test_secrets_are_hidden_and_nothing_is_stored_while_they_are_not_known(tmp_path: Path) -> None:
    async with _world(tmp_path) as world:
        world.telemetry.values = ["hunter2hunter2"]
        world.telemetry.sealed = CannotOpen("no key")
        world.print("the password is hunter2hunter2\n")
        for _ in range(3):
            assert not await world.shipper.ship_once()
        assert world.titles == []
        world.telemetry.sealed = None
        await world.settle()
        assert world.titles == ["the password is •••"]


async def test_a_refused_key_waits_for_the_next_one(tmp_path: Path) -> None:
    async with _world(tmp_path) as world:
        world.print("one\n")
        world.ingest.faults.append(answer(401))
        for _ in range(5):
            await world.shipper.ship_once()
        assert (world.titles, world.telemetry.reads, len(world.ingest.requests)) == ([], 1, 1)
        await world.settle()
        assert world.titles == ["one"]


async def test_output_of_a_new_environment_is_stored_once_its_key_is_created(tmp_path: Path) -> None:
    async with _world(tmp_path) as world:
        key = world.telemetry.keys.pop(_ENVIRONMENT)
        world.print("one\n")
        for _ in range(3):
            await world.shipper.ship_once()
        assert world.titles == []
        # No time passes, and the database is not asked again.
        world.shipper.keys.accept(key)
        await world.shipper.ship_once()
        assert (world.titles, world.telemetry.reads) == (["one"], 1)


async def test_a_key_that_the_edge_does_not_know_yet_is_tried_again_after_a_second(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with _world(tmp_path) as world:
        world.print("one\n")
        world.ingest.faults.append(answer(401))
        await world.shipper.ship_once()
        world.now += 1
        await world.shipper.ship_once()
        assert world.titles == ["one"]
        assert caplog.records == []
        # An edge that goes on to refuse the key is reported.
        world.ingest.faults += [answer(401)] * 3
        world.print("two\n")
        await world.settle()
        assert world.titles == ["one", "two"]
        assert [record.message.rpartition(" ")[2] for record in caplog.records] == ["401"]


async def test_a_revoked_key_is_reported_until_the_next_deployment(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with _world(tmp_path) as world:
        (world.path.parent / "quiet.1.log").write_text("quiet\n")
        world.print("one\n")
        await world.settle()
        key = world.telemetry.keys.pop(_ENVIRONMENT)
        world.ingest.faults.append(answer(401))
        world.print("two\n")
        # For as long as a new deployment may take to create its key, nothing is reported.
        for _ in range(10):
            await world.shipper.ship_once()
            world.now += 1
        assert caplog.records == [] and len(world.ingest.requests) == 2 + 1
        # After a restart of the deployer, all outputs may have lines that are not stored.
        for is_restarted in (False, True):
            if is_restarted:
                world.restart()
            for _ in range(62):
                await world.shipper.ship_once()
                world.now += 1
            (record,) = caplog.records
            assert record.message.endswith("environment env_a has no usable ingest key")
            assert world.shipper.stopped.describe() == (
                "the output of one process is not stored as logs: environment env_a has no usable ingest key"
            )
            caplog.clear()
        world.shipper.keys.accept(key)
        await world.shipper.ship_once()
        assert world.titles[-1] == "two" and world.shipper.stopped.describe() is None


async def test_an_environment_that_was_removed_is_not_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with _world(tmp_path) as world:
        world.print("last words\n")
        world.telemetry.keys.clear()
        world.telemetry.removed.add(_ENVIRONMENT)
        await world.settle()
        assert (world.titles, caplog.records) == ([], [])


async def test_an_unfinished_line_is_not_reported_once_there_is_a_key(tmp_path: Path) -> None:
    async with _world(tmp_path) as world:
        key = world.telemetry.keys.pop(_ENVIRONMENT)
        world.print("> ")
        for _ in range(20):
            await world.shipper.ship_once()
            world.now += 5
        assert world.shipper.stopped.describe() is not None
        world.shipper.keys.accept(key)
        await world.settle()
        assert world.shipper.stopped.describe() is None


async def test_shipping_gets_the_keys_that_the_deployer_creates(tmp_path: Path) -> None:
    telemetry: Any = _Telemetry("http://127.0.0.1:9", {})
    async with ship_output.shipping_output(tmp_path / "outputs", telemetry):
        assert len(telemetry.on_key) == 1
    assert telemetry.on_key == []


async def test_an_output_that_cannot_be_read_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with _world(tmp_path) as world:
        (world.path.parent / "a.1.log").write_text("bad\n")
        world.print("good\n")
        really_make = ship_output.make_events

        def make(lines: list[bytes], *arguments: Any, **options: Any) -> Any:
            if lines == [b"bad"]:
                raise RecursionError
            return really_make(lines, *arguments, **options)

        with monkeypatch.context() as broken:
            broken.setattr(ship_output, "make_events", make)
            for _ in range(3):
                await world.shipper.ship_once()
            assert world.titles == ["good"]
            world.now += 60
            assert "a.1.log cannot be used: RecursionError" in (world.shipper.stopped.describe() or "")
        # With one traceback, not one for each pass.
        assert sum(record.exc_info is not None for record in caplog.records) == 1
        await world.settle()
        assert world.titles == ["good", "bad"]


async def test_an_account_does_not_wait_for_the_requests_of_another_one(tmp_path: Path) -> None:
    async with _world(tmp_path) as world:
        other = world.folder / "env_b" / "8" / "web.1.log"
        other.parent.mkdir(parents=True)
        other.write_text("quick\n")
        world.telemetry.keys["env_b"] = replace(
            world.telemetry.keys[_ENVIRONMENT], environment_id="env_b", account_id=2
        )
        world.print("slow\n")
        is_stored = asyncio.Event()

        async def rule(request: web.Request, body: dict[str, Any]) -> None:
            if body["events"][0]["title"] == "quick":
                is_stored.set()
            await is_stored.wait()

        world.ingest.rule = rule
        async with asyncio.timeout(10):
            await world.shipper.ship_once()
        assert sorted(world.titles) == ["quick", "slow"]


async def test_a_flood_does_not_delay_other_outputs(tmp_path: Path) -> None:
    async with _world(tmp_path, rate=5000) as world:
        quiet = world.folder / "env_b" / "8" / "web.1.log"
        quiet.parent.mkdir(parents=True)
        world.telemetry.keys["env_b"] = replace(
            world.telemetry.keys[_ENVIRONMENT], environment_id="env_b", account_id=2
        )
        for number in range(5):
            world.print((b"flood " * 10 + b"\n") * 200_000)
            truncate_output(world.path, 10 * 2**20)
            with quiet.open("a") as file:
                file.write(f"quiet {number}\n")
            await world.shipper.ship_once()
            assert f"quiet {number}" in world.titles
            world.now += 1


def test_an_account_uses_a_share_of_one_core(tmp_path: Path) -> None:
    now = 0.0
    limits = AccountLimits(LineBudget(lambda: now), lambda: now)
    key = ApplicationKey("the-key", _ENVIRONMENT, "production", "shop", 1, 5000.0, 50_000)
    limits.count_cpu_seconds(1, 1.2)
    assert limits.count_allowed(key) == 0
    assert limits.count_allowed(replace(key, account_id=2)) > 0
    now = 0.9
    assert limits.count_allowed(key) == 0
    now = 1.1
    assert limits.count_allowed(key) > 0


async def test_a_batch_is_not_made_again_without_cpu_time(tmp_path: Path) -> None:
    async with _world(tmp_path) as world:
        world.print("one\n")
        world.ingest.faults += [answer(429, **{"Retry-After": "1"})] * 2
        await world.shipper.ship_once()
        world.now += 2
        await world.shipper.ship_once()
        assert len(world.ingest.requests) == 2
        world.shipper._limits.count_cpu_seconds(1, 1.6)
        for _ in range(2):
            world.now += 1
            assert not await world.shipper.ship_once()
        assert len(world.ingest.requests) == 2
        world.now += 2
        await world.shipper.ship_once()
        assert (len(world.ingest.requests), world.titles) == (3, ["one"])


def test_a_batch_without_lines_needs_no_budget() -> None:
    """A report of lines that were left out is sent also while the account has no CPU time left."""
    limits = AccountLimits(LineBudget(lambda: 0.0), lambda: 0.0)
    key = ApplicationKey("the-key", _ENVIRONMENT, "production", "shop", 1, 5000.0, 50_000)
    limits.count_cpu_seconds(1, 1.2)
    limits.count_lines(key, limits.count_allowed(key))
    assert limits.count_allowed(replace(key, account_id=2)) == 10_000


async def test_a_mask_that_takes_too_long_to_make_delays_only_its_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _world(tmp_path) as world:
        monkeypatch.setattr(deployment_masks, "_make", lambda values: (Mask(values), 1.5))
        world.print("one\n")
        world.ingest.faults.append(answer(503))
        await world.shipper.ship_once()
        assert len(world.ingest.requests) == 1
        # The batch may be sent again, but the time for masks is used up.
        world.now += 2
        assert not await world.shipper.ship_once()
        assert len(world.ingest.requests) == 1
        world.now += 1
        await world.shipper.ship_once()
        assert world.titles == ["one"]


@pytest.mark.parametrize("event", ["truncated", "rotated", "rotated twice", "removed", "overwritten"])
async def test_a_file_that_changes_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, event: str
) -> None:
    async with _world(tmp_path) as world:
        world.print("".join(f"first {number}\n" for number in range(5)))
        await world.settle()
        world.print("".join(f"second {number}\n" for number in range(5)))
        really_write = batches.write_progress

        def write(*arguments: Any) -> None:
            """The batch is chosen and written down; its bytes are read once more to send them."""
            really_write(*arguments)
            monkeypatch.setattr(batches, "write_progress", really_write)
            match event:
                case "truncated":
                    os.truncate(world.path, 0)
                case "rotated":
                    truncate_output(world.path, 60)
                case "rotated twice":
                    truncate_output(world.path, 60)
                    world.print("x" * 100 + "\n")
                    truncate_output(world.path, 60)
                case "removed":
                    world.path.unlink()
                case "overwritten":
                    world.path.write_text("short\n")

        monkeypatch.setattr(batches, "write_progress", write)
        await world.shipper.ship_once()
        world.print("third\n")
        await world.settle()
        world.print("fourth\n")
        await world.settle()
        assert len(world.titles) == len(set(world.titles))
        assert world.titles[:5] == [f"first {number}" for number in range(5)]
        assert world.titles[-1] == "fourth"
        second = [title for title in world.titles if title.startswith("second")]
        assert second == ([f"second {number}" for number in range(5)] if event == "rotated" else [])
        is_reported = any("left out" in title or "missing" in title for title in world.titles)
        assert is_reported or event in ("rotated", "truncated", "removed"), world.titles
        assert world.ingest.conflicts == []


async def test_a_rotation_on_a_full_disk_repeats_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _world(tmp_path) as world:
        lines = [f"line {number}" for number in range(30)]
        world.print("\n".join(lines) + "\n")
        await world.settle()
        with monkeypatch.context() as full:
            full.setattr(output_file, "write_atomically", Mock(side_effect=OSError(errno.ENOSPC, "no space")))
            truncate_output(world.path, 50)
        world.print("after\n")
        await world.settle()
        world.print("later\n")
        await world.settle()
        assert world.titles[:30] == lines
        note, later = world.titles[30:]
        assert note.startswith("Lines may be missing here") and later == "later"
        assert world.ingest.conflicts == []


async def test_refused_batches_and_foreign_files_stop_nothing(tmp_path: Path) -> None:
    async with _world(tmp_path) as world:
        secret = tmp_path / "secret"
        secret.write_text("secret\n")
        (world.path.parent / "web.2.log").symlink_to(secret)
        os.mkfifo(world.path.parent / "web.3.log")
        (world.folder / "env_b" / "1").mkdir(parents=True)
        (world.folder / "env_b" / "1" / "web.1.log").write_text("without a key\n")
        world.print("refused\n")
        world.ingest.faults.append(answer(422))
        for _ in range(3):
            await world.shipper.ship_once()
        world.print("next\n")
        for _ in range(3):
            await world.shipper.ship_once()
        assert [title for title in world.titles if not title.startswith("Pharos")] == ["next"]


async def test_refusals_of_another_server_lose_nothing(tmp_path: Path) -> None:
    """For example, a server that expects TLS on this port. The operator may correct the address later."""
    async with _world(tmp_path) as world:
        world.print("kept\n")
        world.ingest.faults += [answer(status, is_pharos=False) for status in (400, 413, 422)]
        await world.settle()
        assert world.titles == ["kept"]


def test_stopped_outputs_are_reported_after_a_minute_and_each_reason_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    now = 0.0
    stopped = StoppedOutputs(lambda: now)
    for _ in range(3):
        # An output that works must not cause the message again each time.
        for output in ("web.1", "web.2"):
            stopped.note(output, "the edge is away")
        stopped.clear("web.3")
    stopped.note("web.2", "the key is refused")
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert stopped.describe() is None
    now = 60.0
    assert stopped.describe() == "the output of 2 processes is not stored as logs: the key is refused"
    stopped.clear("web.2")
    assert stopped.describe() == "the output of one process is not stored as logs: the edge is away"
    stopped.clear("web.1")
    assert stopped.describe() is None and "stored as logs again" in caplog.records[-1].message


async def test_a_database_outage_is_survived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ship_output, "_POLL_SECONDS", 0.001)
    async with _world(tmp_path) as world:
        world.telemetry.fault = OperationalError("select", {}, Exception("away"))
        world.print("one\n")
        task = asyncio.create_task(world.shipper.run())
        while world.telemetry.reads < 3:
            world.now += 1
            await asyncio.sleep(0.001)
        world.telemetry.fault = None
        while not world.titles:
            world.now += 1
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.wait({task})
        assert world.titles == ["one"]
        # The position of the batch was stored before the batch was sent.
        assert (read_progress(world.path).end or read_progress(world.path).position) == 4


async def test_nothing_is_sent_before_its_position_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _world(tmp_path) as world:
        world.print("line 0\n")
        await world.settle()
        world.print("line 1\n")
        with monkeypatch.context() as full:
            full.setattr(batches, "write_progress", Mock(side_effect=OSError(errno.ENOSPC, "no space")))
            for _ in range(3):
                await world.shipper.ship_once()
        assert world.titles == ["line 0"]
        world.restart()
        for number in (2, 3):
            world.print(f"line {number}\n")
            await world.settle()
        assert world.titles == [f"line {number}" for number in range(4)]
        assert world.ingest.conflicts == []


@pytest.mark.parametrize(("rate", "burst"), [(1e6, 100), (1e6, 3), (1e6, 1), (100.0, 2)])
@pytest.mark.parametrize("is_known", [True, False])
async def test_batches_fit_the_burst_of_the_account(
    tmp_path: Path, rate: float, burst: int, is_known: bool
) -> None:
    async with _world(tmp_path, rate, burst if is_known else 50_000) as world:
        world.ingest.rule = _refuse(world.ingest, lambda events: len(events) > burst)
        first, last = 40 + 2 * burst, 60 + 2 * burst
        world.print("".join(f"line {number}\n" for number in range(first)))
        await world.shipper.ship_once()
        # Killed while a batch is too large.
        world.restart()
        await world.settle()
        # Lost lines are reported in an event, which must fit too.
        for _ in range(2):
            world.print("".join(f"lost {number}\n" for number in range(10)))
            truncate_output(world.path, 10)
        world.print("".join(f"line {number}\n" for number in range(first, last)))
        await world.settle()
        assert [title for title in world.titles if title.startswith("line ")] == [
            f"line {number}" for number in range(last)
        ]
        assert sum(title.startswith("Pharos left out") for title in world.titles) == 1
        assert world.ingest.conflicts == []
        # Only the batch of the killed deployer is sent again.
        assert not is_known or len(world.ingest.requests) == len(world.ingest.stored) + 1


async def test_only_the_line_that_is_too_large_is_left_out(tmp_path: Path) -> None:
    async with _world(tmp_path) as world:
        world.ingest.rule = _refuse(
            world.ingest, lambda events: any(event["title"] == "large" for event in events)
        )
        lines = [f"line {number}" for number in range(50)]
        world.print("\n".join([*lines[:33], "large", *lines[33:]]) + "\n")
        await world.settle()
        assert [title for title in world.titles if title in lines] == lines
        assert sum(title.startswith("Pharos left out") for title in world.titles) == 1
        # Each try takes the same times, so that those of one millisecond suffice.
        times = [event["timestamp"] for event in world.ingest.events() if event["title"] in lines]
        assert [time[-4:] for time in times[1:]] == [f"{step:03}Z" for step in range(1, 51) if step != 33]


def _refuse(ingest: FakeIngest, is_too_large: Callable[[list[dict[str, Any]]], bool]) -> Fault:
    async def rule(request: web.Request, body: dict[str, Any]) -> web.StreamResponse | None:
        return await answer(413)(request, body) if is_too_large(body["events"]) else None

    return rule


@pytest.mark.parametrize("name", ["-stored.json", "-rotated.count"])
async def test_a_position_that_cannot_be_read_now_is_no_new_beginning(tmp_path: Path, name: str) -> None:
    async with _world(tmp_path) as world:
        world.print("".join(f"line {number}\n" for number in range(20)))
        await world.settle()
        truncate_output(world.path, 50)
        world.print("line 20\n")
        await world.settle()
        world.restart()
        world.print("line 21\n")
        with unreadable(world.path.with_name(world.path.name + name)):
            for _ in range(3):
                assert not await world.shipper.ship_once()
        await world.settle()
        assert world.titles == [f"line {number}" for number in range(22)]
        assert world.ingest.conflicts == []


@pytest.mark.parametrize("name", ["", ".1"])
async def test_output_that_cannot_be_opened_now_is_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    async with _world(tmp_path) as world:
        world.print("start\n")
        await world.settle()
        world.print("".join(f"line {number}\n" for number in range(10)))
        world.ingest.faults.append(answer(503))
        await world.shipper.ship_once()
        if name:
            truncate_output(world.path, 71)
        world.now += 60
        really_open = os.open

        def refuse(path: Any, *arguments: Any, **options: Any) -> int:
            if os.fspath(path) == f"{world.path}{name}":
                raise OSError(errno.EMFILE, "Too many open files")
            return really_open(path, *arguments, **options)

        with monkeypatch.context() as full:
            full.setattr(os, "open", refuse)
            for _ in range(3):
                await world.shipper.ship_once()
        await world.settle()
        assert world.titles == ["start", *(f"line {number}" for number in range(10))]


@pytest.mark.parametrize("is_killed", [True, False])
@pytest.mark.parametrize("is_interrupted", [True, False])
async def test_after_a_power_cut_lines_are_not_stored_twice(
    tmp_path: Path, is_killed: bool, is_interrupted: bool
) -> None:
    async with _world(tmp_path) as world:
        lines = [f"line {number}" for number in range(100)]
        world.print("\n".join(lines) + "\n")
        if is_interrupted:
            world.ingest.faults.append(cut_connection(world.ingest, stored=True))
            await world.shipper.ship_once()
            world.now += 60
        else:
            await world.settle()
        # The position is on the disk, the end of the output is not.
        os.truncate(world.path, world.path.stat().st_size - 20)
        if is_killed:
            world.restart()
        await world.settle()
        world.print(" glued\nafter\n")
        await world.settle()
        world.print("later\n")
        await world.settle()
        note, *others = world.titles[100:]
        assert (world.titles[:100], others) == (lines, ["after", "later"])
        assert note.startswith("Lines may be missing here")
        assert world.ingest.conflicts == []


async def test_a_damaged_position_is_no_new_beginning(tmp_path: Path) -> None:
    async with _world(tmp_path) as world:
        world.print("one\ntwo\n")
        await world.settle()
        world.path.with_name(world.path.name + "-stored.json").write_bytes(b"\0" * 80)
        world.restart()
        await world.settle()
        world.print("three\n")
        await world.settle()
        assert [world.titles[0], world.titles[1], world.titles[3]] == ["one", "two", "three"]
        assert world.titles[2].startswith("Lines may be missing here")


async def test_a_clock_that_is_set_back_does_not_stop_shipping(tmp_path: Path) -> None:
    async with _world(tmp_path) as world:
        telemetry: Any = world.telemetry
        shipper = OutputShipper(world.folder, telemetry, world.session, LineBudget())
        world.print("one\n")
        world.ingest.faults.append(answer(503, **{"Retry-After": "60"}))
        await shipper.ship_once()
        # The end of the wait is a time of the clock that nobody sets.
        assert shipper._limits._wait_until[1] <= time.monotonic() + 60
