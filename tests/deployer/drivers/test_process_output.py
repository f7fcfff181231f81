"""Reads of process output from the files in the deploy folder."""

import os
from pathlib import Path

import pytest

from control_domain.process_output import MAX_BYTES, OutputPart, OutputUnreadable
from deployer.drivers.local.process_output import LocalProcessOutput

_ENVIRONMENT = "env_1"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The output files of the only deployment."""
    folder = tmp_path / "outputs" / _ENVIRONMENT / "1"
    folder.mkdir(parents=True)
    return folder


async def _read(files: Path, **offsets: int) -> dict[str, OutputPart]:
    """Return the output by process; `offsets` by process, such as `web=5` for `1/web.1`."""
    output = LocalProcessOutput(files.parents[2])
    keys = {f"1/{process}.1": offset for process, offset in offsets.items()}
    parts = await output.read(_ENVIRONMENT, keys, {})
    assert parts is not None
    return {part.name: part for part in parts}


async def test_a_long_file_is_read_from_its_end(files: Path) -> None:
    line = b"x" * 99 + b"\n"
    (files / "web.1.log").write_bytes(line * 10_000)
    part = (await _read(files))["web.1"]
    # Whole lines of the last 256 KiB.
    assert part.text == line.decode() * (MAX_BYTES // 100)
    assert part.offset == 1_000_000
    part = (await _read(files, web=0))["web.1"]
    assert (len(part.text), part.offset) == (MAX_BYTES // 100 * 100, MAX_BYTES // 100 * 100)


async def test_a_line_without_end_is_returned_in_parts(files: Path) -> None:
    (files / "web.1.log").write_bytes(b"x" * (MAX_BYTES + 10))
    part = (await _read(files, web=0))["web.1"]
    assert (len(part.text), part.offset) == (MAX_BYTES, MAX_BYTES)
    part = (await _read(files, web=MAX_BYTES))["web.1"]
    assert (part.text, part.rest, part.offset) == ("", "x" * 10, MAX_BYTES)


async def test_a_cut_file_is_read_from_its_beginning_and_its_end_with_the_moved_lines(files: Path) -> None:
    (files / "web.1.log").write_bytes(b"four\n")
    (files / "web.1.log.1").write_bytes(b"two\nthree\n")
    part = (await _read(files, web=1000))["web.1"]
    assert (part.text, part.offset, part.is_truncated) == ("four\n", 5, True)
    part = (await _read(files))["web.1"]
    assert (part.text, part.offset, part.is_truncated) == ("two\nthree\nfour\n", 5, False)


async def test_links_pipes_and_folders_are_skipped(files: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    (files / "web.1.log").symlink_to(secret)
    os.mkfifo(files / "web.2.log")
    (files / "web.3.log").mkdir()
    (files / "web.4.log").write_text("four\n")
    (files / "web.4.log.1").symlink_to(secret)
    assert {name: part.text for name, part in (await _read(files)).items()} == {"web.4": "four\n"}
    files.rename(tmp_path / "elsewhere")
    files.symlink_to(tmp_path / "elsewhere")
    assert await LocalProcessOutput(tmp_path).read(_ENVIRONMENT, {}, {}) is None


async def test_an_environment_without_output_has_none(tmp_path: Path) -> None:
    assert await LocalProcessOutput(tmp_path).read(_ENVIRONMENT, {}, {}) is None


async def test_an_error_names_the_folder(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: int) -> list[str]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.raises(
        OutputUnreadable, match=f"cannot be read in {tmp_path}: Permission denied. .* as the deployer's user"
    ):
        await LocalProcessOutput(tmp_path).read(_ENVIRONMENT, {}, {})


def test_a_deployer_name_ends_with_its_folder(tmp_path: Path) -> None:
    output = LocalProcessOutput(tmp_path)
    assert output.belongs_to(f"web1:{tmp_path}") and not output.belongs_to(f"web1:{tmp_path}/other")
