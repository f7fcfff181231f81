"""chDB as the engine of the ClickHouse front: runs the statements of HTTP requests."""

import asyncio
import gzip
import re
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from backports import zstd

_READING = re.compile(r"\s*(SELECT|WITH|SHOW|DESCRIBE|DESC|EXPLAIN|EXISTS)\b", re.I)


class Engine:
    """chDB on one data folder: writes and reads have a handle and a thread each."""

    def __init__(self, data: Path) -> None:
        # Not imported at the top: that takes half a second and starts threads, and most importers only start a front
        # process.
        import chdb

        data.mkdir(parents=True, exist_ok=True)
        self._scratch = data / "front-tmp"
        self._scratch.mkdir(exist_ok=True)
        self._writer = chdb.connect(str(data / "chdb"))
        self._reader = chdb.connect(str(data / "chdb"))
        self._writing = ThreadPoolExecutor(1)
        self._reading = ThreadPoolExecutor(1)

    async def insert(self, into: str, fmt: str, data: bytes, settings: dict[str, str]) -> int:
        """Insert the data unchanged; return the number of rows."""

        def run() -> int:
            with tempfile.NamedTemporaryFile(dir=self._scratch) as file:
                file.write(data)
                file.flush()
                clause = f" SETTINGS {_clause(settings)}" if settings else ""
                statement = f"INSERT INTO {into} FROM INFILE '{file.name}'{clause} FORMAT {fmt}"
                return int(self._writer.query(statement, "TabSeparated").rows_read())

        return await asyncio.get_running_loop().run_in_executor(self._writing, run)

    async def run_statement(
        self, sql: str, fmt: str, settings: dict[str, str], params: dict[str, str]
    ) -> bytes:
        """Run any other statement; return its result in the format."""
        reads = bool(_READING.match(sql))
        if settings.pop("readonly", "0") != "0" and not reads:
            raise RuntimeError("Code: 164. DB::Exception: Cannot execute query in readonly mode. (READONLY)")
        handle, pool = (self._reader, self._reading) if reads else (self._writer, self._writing)
        if reads and settings and re.match(r"\s*(SELECT|WITH)\b", sql, re.I):
            sql = f"{sql} SETTINGS {_clause(settings)}"

        def run() -> bytes:
            return bytes(handle.query(sql, fmt, params=params).bytes())

        return await asyncio.get_running_loop().run_in_executor(pool, run)

    def close(self) -> None:
        """Finish running statements and close chDB."""
        self._writing.shutdown()
        self._reading.shutdown()
        self._writer.close()
        self._reader.close()


def _clause(settings: dict[str, str]) -> str:
    for name in settings:
        if not re.fullmatch(r"\w+", name):
            raise RuntimeError(f"Code: 115. DB::Exception: Unknown setting {name}. (UNKNOWN_SETTING)")
    return ", ".join(
        f"{name} = {value}" if re.fullmatch(r"-?\d+(\.\d+)?", value) else f"{name} = '{_escape(value)}'"
        for name, value in settings.items()
    )


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def decompress(body: bytes, encoding: str) -> bytes:
    match encoding:
        case "" | "identity":
            return body
        case "gzip":
            return gzip.decompress(body)
        case "deflate":
            return zlib.decompress(body)
        case "zstd":
            return bytes(zstd.decompress(body))
    raise RuntimeError(
        f"Code: 506. DB::Exception: Unknown compression {encoding}. (UNKNOWN_COMPRESSION_METHOD)"
    )
