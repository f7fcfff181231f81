"""Output files are truncated while a process writes to them."""

import os
import threading
import time
from pathlib import Path

import pytest

from deployer.processes.output_file import count_rotated_bytes, end_line, open_output, truncate_output
from tests.deployer.unreadable import unreadable


def test_a_short_file_is_not_truncated(tmp_path: Path) -> None:
    path = tmp_path / "output"
    path.write_bytes(b"x" * 100)
    truncate_output(path, 100)
    assert path.read_bytes() == b"x" * 100
    assert not (tmp_path / "output.1").exists()


def test_the_newest_lines_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "output"
    path.write_text("".join(f"line {number}\n" for number in range(1000)))
    truncate_output(path, 95)
    assert path.read_bytes() == b""
    assert (tmp_path / "output.1").read_text() == "".join(f"line {number}\n" for number in range(990, 1000))


def test_truncation_of_a_line_without_an_end(tmp_path: Path) -> None:
    path = tmp_path / "output"
    path.write_bytes(b"x" * 300_000)
    truncate_output(path, 200_000)
    assert (tmp_path / "output.1").read_bytes() == b"x" * 200_000


def test_a_writer_continues_at_the_beginning(tmp_path: Path) -> None:
    path = tmp_path / "output"
    writer = open_output(path, None)
    os.write(writer, b"before\n" * 100)
    truncate_output(path, 10)
    os.write(writer, b"after\n")
    os.close(writer)
    assert path.read_bytes() == b"after\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_truncation_ends_despite_a_fast_writer(tmp_path: Path) -> None:
    """All lines are whole, except the one at which others were lost."""
    path = tmp_path / "output"
    writer = open_output(path, None)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            os.write(writer, b"a line of output\n" * 1000)

    thread = threading.Thread(target=write)
    thread.start()
    for _ in range(50):
        while path.stat().st_size <= 100_000:
            time.sleep(0.0001)
        truncate_output(path, 100_000)
    stop.set()
    thread.join()
    os.close(writer)
    assert (tmp_path / "output.1").stat().st_size <= 200_000
    assert set((tmp_path / "output.1").read_bytes().splitlines()[:-1]) == {b"a line of output"}


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("theirs")
    (tmp_path / "output").symlink_to(tmp_path / "other")
    for call in (
        lambda: open_output(tmp_path / "output", None),
        lambda: truncate_output(tmp_path / "output", 1),
    ):
        with pytest.raises(OSError):
            call()
    assert (tmp_path / "other").read_text() == "theirs"


def test_a_file_is_truncated_on_a_full_disk(tmp_path: Path) -> None:
    (tmp_path / "output").write_text("x" * 1000)
    (tmp_path / "output.1").symlink_to("/dev/full")
    truncate_output(tmp_path / "output", 10)
    assert (tmp_path / "output").read_text() == ""


def test_a_file_is_not_truncated_while_its_count_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "output"
    for _ in range(2):
        path.write_bytes(b"x" * 100)
        truncate_output(path, 10)
    path.write_bytes(b"x" * 100)
    with unreadable(tmp_path / "output-rotated.count"), pytest.raises(OSError):
        truncate_output(path, 10)
    assert path.read_bytes() == b"x" * 100
    truncate_output(path, 10)
    assert count_rotated_bytes(path) == 300


@pytest.mark.parametrize(
    ("printed", "kept"),
    [(b"", b""), (b"a\n", b"a\n"), (b"a", b"a\n"), (b"a\nb", b"a\nb\n")],
)
def test_a_line_end_is_appended_once(printed: bytes, kept: bytes, tmp_path: Path) -> None:
    path = tmp_path / "output"
    path.write_bytes(printed)
    for _ in range(2):
        end_line(path)
    assert path.read_bytes() == kept
