"""Runs an iterator in a thread of its own, a few items ahead of those who take them."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")


class _End:
    def __init__(self, cause: BaseException | None) -> None:
        self.cause = cause


class ReadAhead(Generic[T]):
    """`depth` items are kept ready. `close` is called in the thread when it is done with `items`.

    The thread is a daemon: one that waits in standard input cannot be woken and is left behind at exit.
    """

    def __init__(self, items: Iterator[T], depth: int, close: Callable[[], None]) -> None:
        self._items = items
        self._close = close
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[T | _End] = asyncio.Queue()
        self._room = threading.Semaphore(depth)
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="read ahead", daemon=True)

    async def __aenter__(self) -> "ReadAhead[T]":
        self._thread.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped = True
        self._room.release()
        # A file's thread ends at once. It never waits for the loop, so the loop may wait for it.
        self._thread.join(timeout=1.0)

    async def next(self) -> T | None:
        """The next item; None at the end, and again at each further call. Raises what the iterator raised."""
        item = await self._queue.get()
        if isinstance(item, _End):
            self._queue.put_nowait(item)
            if item.cause is not None:
                raise item.cause
            return None
        self._room.release()
        return item

    def _run(self) -> None:
        cause: BaseException | None = None
        try:
            while True:
                self._room.acquire()
                if self._stopped:
                    return
                self._put(next(self._items))
        except StopIteration:
            pass
        except BaseException as error:
            # It belongs to the one who takes the items.
            cause = error
        finally:
            self._close()
            self._put(_End(cause))

    def _put(self, item: T | _End) -> None:
        try:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, item)
        except RuntimeError:
            # The loop is closed: nobody takes anything any more.
            self._stopped = True
