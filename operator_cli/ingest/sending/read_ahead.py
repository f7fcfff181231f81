"""Run an iterator in a thread of its own, a few items ahead of its consumers."""

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
    """Keeps up to `depth` items ready. The thread calls `close` when it is done with `items`.

    The thread is a daemon, because a thread that waits for standard input cannot be woken at exit.
    """

    def __init__(self, items: Iterator[T], depth: int, close: Callable[[], None]) -> None:
        self._items = items
        self._close = close
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[T | _End] = asyncio.Queue()
        self._free_slots = threading.Semaphore(depth)
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="read ahead", daemon=True)

    async def __aenter__(self) -> "ReadAhead[T]":
        self._thread.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped = True
        self._free_slots.release()
        # The thread of a file ends at once. It never waits for the loop, so the loop may wait for it.
        self._thread.join(timeout=1.0)

    async def next(self) -> T | None:
        """Return the next item, and None after the end. Raises the exception of the iterator."""
        item = await self._queue.get()
        if isinstance(item, _End):
            self._queue.put_nowait(item)
            if item.cause is not None:
                raise item.cause
            return None
        self._free_slots.release()
        return item

    def _run(self) -> None:
        cause: BaseException | None = None
        try:
            while True:
                self._free_slots.acquire()
                if self._stopped:
                    return
                self._put(next(self._items))
        except StopIteration:
            pass
        except BaseException as error:
            # `next` raises it in the consumer.
            cause = error
        finally:
            self._close()
            self._put(_End(cause))

    def _put(self, item: T | _End) -> None:
        try:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, item)
        except RuntimeError:
            # The loop is closed: there is no consumer any more.
            self._stopped = True
