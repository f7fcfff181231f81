"""Small bodies that become large, like decompression bombs: the memory that they use in an edge in a separate process.

Run as a program (`python -m`), this file is that process.
"""

import asyncio
import gzip
import http.client
import json
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import fork_server

try:
    from compression import zstd
except ImportError:
    from backports import zstd

_ROOT = Path(__file__).parents[2]
_MIB = 2**20
_GIB = 2**30
_BLOCK = 128 * 1024
LIMIT = 20 * _MIB


def deflate_blocks(total: int, wbits: int, filler: bytes = b" ") -> bytes:
    """Return truncated deflate data that becomes `total` bytes: one full-flushed block, repeated."""
    encoder = zlib.compressobj(9, wbits=wbits)
    head = encoder.compress(filler * _MIB) + encoder.flush(zlib.Z_FULL_FLUSH)
    block = encoder.compress(filler * _MIB) + encoder.flush(zlib.Z_FULL_FLUSH)
    return head + block * (total // _MIB - 1)


def zstd_run(total: int, *, window_log: int = 23, declared: int = 0, single: bool = False) -> bytes:
    """Return a zstd frame of `total` spaces in blocks of a repeated byte: 4 bytes become 128 KiB (RFC 8878, 3.1.1)."""
    descriptor = (0x20 if single else 0) | (0xC0 if declared else 0)
    window = b"" if single else bytes([(window_log - 10) << 3])
    head = b"\x28\xb5\x2f\xfd" + bytes([descriptor]) + window
    if declared:
        head += declared.to_bytes(8, "little")
    block, last = (((_BLOCK << 3) | (1 << 1) | end).to_bytes(3, "little") + b" " for end in (0, 1))
    return head + block * (total // _BLOCK - 1) + last


def dense(prefix: bytes, unit: bytes, suffix: bytes) -> bytes:
    """Return gzip of a body just below the limit that repeats the unit."""
    return gzip.compress(prefix + unit * ((LIMIT - 1000) // len(unit)) + suffix, 6)


@dataclass(frozen=True)
class Bomb:
    """A body and the expected response. `peak` is the memory that it may take, in MiB."""

    coding: str
    make: Callable[[], bytes]
    status: int
    peak: int = 30


_EVENTS = b'{"batch_id":"b","events":['
BOMBS = {
    # 2 GiB. Deflate expands a byte to at most 1,032, so it needs 2 MB; zstd needs a KiB for 32 MiB.
    "gzip to 2 GiB": Bomb("gzip", lambda: deflate_blocks(2 * _GIB, 31), 413),
    "gzip to 2 GiB, a member a MiB": Bomb("gzip", lambda: gzip.compress(b" " * _MIB) * 2048, 413),
    "gzip of 20 KB": Bomb("gzip", lambda: deflate_blocks(21 * _MIB, 31), 413),
    "deflate to 2 GiB": Bomb("deflate", lambda: deflate_blocks(2 * _GIB, 15), 413),
    "raw deflate to 2 GiB": Bomb("deflate", lambda: deflate_blocks(2 * _GIB, -15), 413),
    "zstd to 2 GiB": Bomb("zstd", lambda: zstd_run(2 * _GIB), 413),
    "zstd to 2 GiB, smallest window": Bomb("zstd", lambda: zstd_run(2 * _GIB, window_log=17), 413),
    "zstd to 2 GiB in many frames": Bomb("zstd", lambda: zstd_run(4 * _MIB) * 512, 413),
    "zstd that declares 2 GiB": Bomb("zstd", lambda: zstd_run(2 * _GIB, declared=2 * _GIB), 413),
    "zstd that declares 2 GiB, one segment": Bomb(
        "zstd", lambda: zstd_run(2 * _GIB, declared=2 * _GIB, single=True), 413
    ),
    "zstd that declares 16 EiB": Bomb("zstd", lambda: zstd_run(_BLOCK, declared=2**64 - 3), 413),
    "zstd that declares less than it holds": Bomb("zstd", lambda: zstd_run(2 * _GIB, declared=_BLOCK), 422),
    "zstd with a window of 2 GiB": Bomb("zstd", lambda: zstd_run(2 * _GIB, window_log=31), 422),
    "gzip of gzip to 2 GiB": Bomb("gzip", lambda: gzip.compress(deflate_blocks(2 * _GIB, 31)), 422),
    # Below every size limit, but large as Python objects. The body itself is 20 MiB, and copied once or twice.
    "1.4 million events": Bomb(
        "gzip", lambda: dense(_EVENTS, b'{"type":"log"},', b'{"type":"log"}]}'), 413, 80
    ),
    "7 million empty events": Bomb("gzip", lambda: dense(_EVENTS, b"{},", b"{}]}"), 413, 80),
    "7 million empty events behind a fault": Bomb(
        "gzip", lambda: dense(b'{"batch_id":"b","events":7,"events":[', b"{},", b"{}]}"), 413, 80
    ),
    "events replaced by a second member of the name": Bomb(
        "gzip",
        lambda: dense(_EVENTS, b'{"type":"log"},', b'{"type":"log"}],"events":[{"type":"log"}]}'),
        413,
        80,
    ),
    "3 million objects next to a fault": Bomb(
        "gzip", lambda: dense(b'{"batch_id":7,"events":[{"type":"log"}],"x":[', b'{"":0},', b"0]}"), 422, 80
    ),
    "3 million objects as batch_id": Bomb(
        "gzip", lambda: dense(b'{"events":[{"type":"log"}],"batch_id":[', b'{"":0},', b"0]}"), 422, 80
    ),
    "a long text behind a bracket in a text": Bomb(
        "gzip", lambda: dense(b'{"batch_id":"[","x":"', b"a", b'","events":[{}]}'), 422, 80
    ),
    "a long text of escapes": Bomb(
        "gzip", lambda: dense(b'{"batch_id":"[","x":"', b'\\"', b'","events":[{}]}'), 422, 80
    ),
    "5 million brackets in texts": Bomb("gzip", lambda: dense(b"[", b'"[",', b"0]"), 422, 80),
    "20 million opening brackets": Bomb("gzip", lambda: dense(b"", b"[", b""), 422, 80),
    "20 million closing brackets": Bomb("gzip", lambda: dense(b"", b"]", b""), 422, 80),
    "20 million unmatched brackets": Bomb("gzip", lambda: dense(b"", b"{]", b""), 422, 80),
    "20 million quotes": Bomb("gzip", lambda: dense(b"", b'"', b""), 422, 80),
    "a text of emoji outside of every event": Bomb(
        "gzip", lambda: dense(b'{"batch_id":"b","events":[{}],"x":"', "🦔".encode(), b'"}'), 422, 80
    ),
}


class EdgeProcess:
    """The edge in a separate process, with its memory."""

    def __init__(self, process: "subprocess.Popen[str]", port: int, key: str) -> None:
        self._status = Path(f"/proc/{process.pid}/status")
        self._clear = Path(f"/proc/{process.pid}/clear_refs")
        self._port = port
        self._key = key
        self.send(b'{"batch_id":"b","events":[{"type":"log"}]}', "identity")
        self._at_rest = self._read("VmRSS")

    def send(self, body: bytes, coding: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=180)
        try:
            connection.request(
                "POST",
                "/api/v1/ingest",
                body,
                {
                    "Authorization": f"Bearer {self._key}",
                    "Content-Type": "application/json",
                    "Content-Encoding": coding,
                },
            )
            return connection.getresponse().status
        finally:
            connection.close()

    def forget_peak(self) -> None:
        # proc(5): 5 resets the peak resident set size.
        self._clear.write_text("5")

    def peak(self) -> float:
        """Return the peak memory since `forget_peak`, above that of the first request, in MiB."""
        return (self._read("VmHWM") - self._at_rest) / 1024

    def _read(self, name: str) -> int:
        (line,) = (line for line in self._status.read_text().splitlines() if line.startswith(name + ":"))
        return int(line.split()[1])


# One process for each bomb, because memory that the C library keeps after one bomb would count for the next.
@pytest.fixture
def edge_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EdgeProcess]:
    folder = tmp_path_factory.mktemp("edge")
    with fork_server.popen(
        [sys.executable, "-m", "tests.ingest_edge.test_bombs", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
    ) as process:
        assert process.stdout is not None
        try:
            yield EdgeProcess(process, **json.loads(process.stdout.readline()))
        finally:
            # The process ends at the end of its input.
            process.communicate(timeout=120)
    assert process.returncode == 0


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_and_costs_little(name, edge_process):
    bomb = BOMBS[name]
    body = bomb.make()
    assert len(body) < 5 * _MIB
    edge_process.forget_peak()
    assert edge_process.send(body, bomb.coding) == bomb.status
    peak = edge_process.peak()
    print(f"{peak:.1f} MiB")
    assert peak < bomb.peak
    # The edge still runs, and accepts the next batch.
    assert edge_process.send(b'{"batch_id":"b","events":[{"type":"log"}]}', "identity") == 202


def test_bombs_have_the_declared_sizes():
    decoder = zlib.decompressobj(31)
    assert decoder.decompress(deflate_blocks(64 * _MIB, 31)) == b" " * (64 * _MIB)
    assert len(deflate_blocks(2 * _GIB, 31)) > 2 * _GIB // 1032
    assert zstd.decompress(zstd_run(64 * _MIB)) == b" " * (64 * _MIB)
    assert zstd.decompress(zstd_run(64 * _MIB, declared=64 * _MIB)) == b" " * (64 * _MIB)
    assert len(zstd_run(2 * _GIB)) < 70_000


async def _serve(folder: Path) -> None:
    from tests.ingest_edge.conftest import open_edge

    async with open_edge(folder) as edge:
        print(json.dumps({"port": edge.port, "key": edge.key}), flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
