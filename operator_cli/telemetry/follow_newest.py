"""Shows rows of telemetry as they arrive, by repeatedly reading the newest ones.

The API orders rows by their sender's time, and senders may buffer rows. A new row can therefore come before rows that
were read already, so each read overlaps the reads of the last minute.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NoReturn

from operator_cli.api.client import Api, Query
from operator_cli.api.problems import ApiRefused
from operator_cli.durations import encode_duration
from operator_cli.errors import InstallationUnreachable
from operator_cli.messages import OutageNotice

_POLL_SECONDS: Final = 1.0
_OVERLAP_SECONDS: Final = 60
_PAGE_ROWS: Final = 100
_MAX_ROWS: Final = 1000
_TOO_MANY_REQUESTS: Final = 429

Row = dict[str, Any]
"""A row with a `timestamp`. Different rows may be equal in every member."""


def follow_newest(
    api: Api,
    path: Sequence[str],
    filters: Query,
    within: Query,
    count: int,
    show: Callable[[Sequence[Row]], None],
) -> NoReturn:
    """Show the newest `count` rows of a list in the time range `within`, then new rows, until the process is
    interrupted. `show` gets rows in the order of their times.

    Raises `CommandFailed` if the installation refuses the request. Waits for an installation that does not respond.
    """
    # Many rows may have the same time, so also read rows before the first shown one, which are not new.
    known = api.get_all(*path, query={**filters, **within}, limit=_MAX_ROWS)
    show(known[:count][::-1])
    unshown = UnshownRows(known, is_full=len(known) == _MAX_ROWS, now=time.monotonic())
    outage = OutageNotice()
    read_at, pause = time.monotonic(), _POLL_SECONDS
    while True:
        time.sleep(pause)
        began = time.monotonic()
        since = encode_duration(int(began - read_at) + _OVERLAP_SECONDS)
        try:
            new, is_complete = unshown.take(_read_pages(api, path, {**filters, "since": since}), began)
        except InstallationUnreachable as error:
            outage.report(error)
            continue
        except ApiRefused as error:
            if error.status != _TOO_MANY_REQUESTS:
                raise
            outage.report(error)
            continue
        outage.end()
        unshown.forget(before=read_at - _OVERLAP_SECONDS)
        # At most half of the time is spent on reads.
        read_at, pause = began, max(_POLL_SECONDS, time.monotonic() - began)
        if not is_complete:
            print("pharos: More rows arrived than can be shown.", file=sys.stderr)
        show(new)


def _read_pages(api: Api, path: Sequence[str], query: Query) -> Iterator[list[Row]]:
    """Yield the pages of a list, the newest rows first."""
    cursor = None
    while True:
        response = api.request("GET", *path, query={**query, "limit": _PAGE_ROWS, "cursor": cursor})
        yield response.data
        cursor = response.document["next_cursor"]
        if cursor is None:
            return


class UnshownRows:
    """Finds the new rows in overlapping reads."""

    def __init__(self, known: Sequence[Row], *, is_full: bool, now: float) -> None:
        """`known`: the rows of the first read, the newest first. `is_full`: older rows were left out."""
        self._oldest = str(known[-1]["timestamp"]) if is_full else ""
        self._seen = Counter(map(_key, known))
        self._seen_at = dict.fromkeys(self._seen, now)

    def take(self, pages: Iterator[list[Row]], now: float) -> tuple[list[Row], bool]:
        """Return the rows that no earlier call returned, the oldest first, and False if there are too many to read.

        Stops at a page without new rows. After an error of `pages`, the rows count as not returned.
        """
        found = Counter[str]()
        new: list[Row] = []
        is_complete = True
        for page in pages:
            count = len(new)
            for row in page:
                key = _key(row)
                found[key] += 1
                if found[key] > self._seen[key] and str(row["timestamp"]) >= self._oldest:
                    new.append(row)
            if len(new) == count:
                break
            if len(new) >= _MAX_ROWS:
                is_complete = False
                break
        self._seen |= found
        for key in found:
            self._seen_at.setdefault(key, now)
        return new[::-1], is_complete

    def forget(self, *, before: float) -> None:
        """Forget the rows that were seen before this time, and that no later read contains."""
        for key in [key for key, at in self._seen_at.items() if at < before]:
            del self._seen[key], self._seen_at[key]


def _key(row: Row) -> str:
    return json.dumps(row, sort_keys=True)
