"""Decides when the output of an account may be sent next, and how many events a batch of it may have."""

from collections.abc import Callable

from control_domain.projects.application_keys import ApplicationKey
from deployer.output_logs.line_budget import LineBudget

BATCH_LINES = 500
_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0
# Deployed code chooses its output, and may choose long lines that are expensive to search for secrets, or variables
# whose mask is expensive to make. An ordinary line takes 10 us.
_CPU_SHARE = 0.2
"""The share of one core that the search of an account's lines may use."""
_CPU_BURST_SECONDS = 1.0
"""The CPU seconds that the search may use at once."""


class AccountLimits:
    """Limits what each account may send. The deployer has one object for all accounts."""

    def __init__(self, budget: LineBudget, clock: Callable[[], float]) -> None:
        """`clock` returns seconds and is never set back."""
        self._budget = budget
        self._clock = clock
        self._wait_until: dict[int, float] = {}
        self._failures: dict[int, int] = {}
        self._cpu: dict[int, tuple[float, float]] = {}
        """The CPU seconds that an account has left, and the time of that figure."""
        self._most_events: dict[int, int] = {}
        """The maximum number of events in a batch of an account, after the edge has refused a batch as too large."""

    def may_send(self, account_id: int) -> bool:
        """Return True if the account need not wait."""
        return self._wait_until.get(account_id, 0.0) <= self._clock()

    def choose_size(self, key: ApplicationKey) -> int:
        """Return how many events the next batch of the account may have."""
        most = min(BATCH_LINES, self._budget.most_events(key.ingest_rate, key.ingest_burst))
        return min(most, self._most_events.get(key.account_id, most))

    def count_allowed(self, key: ApplicationKey) -> int:
        """Return how many lines of the account may be sent now."""
        if not self.has_cpu_seconds(key.account_id):
            return 0
        return self._budget.available(key.account_id, key.ingest_rate)

    def count_lines(self, key: ApplicationKey, lines: int) -> None:
        """Take lines that will be sent from the account's budget. Without a pause after `count_allowed`: other batches
        of the account would see the same lines."""
        self._budget.take(key.account_id, key.ingest_rate, lines)

    def give_back_lines(self, key: ApplicationKey, lines: int) -> None:
        """Return lines to the account's budget that are not sent."""
        self._budget.take(key.account_id, key.ingest_rate, -lines)

    def has_cpu_seconds(self, account_id: int) -> bool:
        """Return True if the account has CPU time left."""
        return self._cpu_seconds_left(account_id) > 0

    def count_cpu_seconds(self, account_id: int, seconds: float) -> None:
        """Take the CPU time of a batch or a mask from the account's budget."""
        self._cpu[account_id] = self._cpu_seconds_left(account_id) - seconds, self._clock()

    def _cpu_seconds_left(self, account_id: int) -> float:
        left, at = self._cpu.get(account_id, (_CPU_BURST_SECONDS, self._clock()))
        return min(_CPU_BURST_SECONDS, left + (self._clock() - at) * _CPU_SHARE)

    def note_stored(self, account_id: int) -> None:
        """Record that a batch is stored. Raise the size of the next batches step by step, because the limit of the edge
        may have been raised."""
        self._failures.pop(account_id, None)
        most = self._most_events.pop(account_id, BATCH_LINES)
        if most < BATCH_LINES:
            self._most_events[account_id] = most + 1

    def note_too_large(self, account_id: int, events: int) -> None:
        """Record that the edge has refused a batch of several events as too large. The next batch is half as large."""
        self._most_events[account_id] = max(1, events // 2)

    def note_refused(self, account_id: int) -> None:
        """Record that the edge has refused a batch for good. Remove the account's limit on the size of batches: if a
        single event was too large, the other events are not."""
        self._most_events.pop(account_id, None)

    def note_failure(self, account_id: int, seconds: float | None) -> None:
        """Make the account wait for `seconds`. None: wait longer after each failure in a row."""
        if not self.may_send(account_id):
            # Requests that were in flight at the same time fail together and count once.
            return
        failures = self._failures.get(account_id, 0)
        self._failures[account_id] = failures + 1
        wait = seconds or min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(failures, 10))
        self._wait_until[account_id] = self._clock() + wait
