"""The open streams of changes of a process. Their number is limited, and streams of one account share its sweeps."""

from collections.abc import Iterator
from contextlib import contextmanager

from control_api.changes.account_watch import AccountWatch, Follower, StoreSweeps
from control_api.limits.fair_queue import FairQueue
from control_domain.database.engine import Sessions
from pipeline_contracts.errors import TooManyRequests, Unavailable
from storage_backends.column_store.interface import ColumnStore

MAX_STREAMS = 1000
MAX_STREAMS_PER_ACCOUNT = 200
MAX_STREAMS_PER_PERSON = 50
_RETRY_SECONDS = 10


class ChangeStreams:
    """All streams of changes of a process."""

    def __init__(self, sessions: Sessions, store: ColumnStore, report_queue: FairQueue) -> None:
        self._sessions = sessions
        self._store = store
        self._store_sweeps = StoreSweeps(report_queue)
        self._watches: dict[int, AccountWatch] = {}
        self.is_stopping = False

    def check_capacity(self, account_id: int, person_id: int) -> None:
        """Raise `Unavailable` if the process stops or has no stream left, and `TooManyRequests` if the account or the
        person has no stream left."""
        if self.is_stopping:
            # No further sweep begins, so the stream would stay silent.
            raise Unavailable("This process stops.", retry_after=_RETRY_SECONDS)
        if sum(len(watch.followers) for watch in self._watches.values()) >= MAX_STREAMS:
            raise Unavailable("Too many pages follow changes here.", retry_after=_RETRY_SECONDS)
        watch = self._watches.get(account_id)
        followers = watch.followers if watch is not None else set()
        own = sum(
            follower.person_id == person_id for each in self._watches.values() for follower in each.followers
        )
        if len(followers) >= MAX_STREAMS_PER_ACCOUNT or own >= MAX_STREAMS_PER_PERSON:
            raise TooManyRequests(
                f"An account may follow changes {MAX_STREAMS_PER_ACCOUNT} times at once, and a person "
                f"{MAX_STREAMS_PER_PERSON} times in all accounts together: close a stream.",
                headers={"Retry-After": str(_RETRY_SECONDS)},
            )

    def stop(self) -> None:
        """Make all streams end soon. Their readers may reconnect to another process."""
        self.is_stopping = True
        for watch in self._watches.values():
            for follower in watch.followers:
                follower.wake.set()

    async def close(self) -> None:
        """Stop, and wait for the last queries: only then may the engines be closed."""
        self.stop()
        for watch in self._watches.values():
            await watch.close()

    @contextmanager
    def following(self, follower: Follower) -> Iterator[None]:
        """Notify the follower of changes. Raises `Unavailable` and `TooManyRequests`."""
        account_id = follower.account_id
        self.check_capacity(account_id, follower.person_id)
        for former in [number for number, watch in self._watches.items() if watch.is_over]:
            del self._watches[former]
        watch = self._watches.get(account_id)
        if watch is None:
            watch = self._watches[account_id] = AccountWatch(
                self._sessions, self._store, self._store_sweeps, account_id
            )
        watch.add(follower)
        try:
            yield
        finally:
            watch.followers.remove(follower)
