"""When the output of an account may be sent next, and how many events a batch of it may have."""

from collections.abc import Callable

from control_domain.projects.application_keys import ApplicationKey
from deployer.output_logs.line_budget import LineBudget

BATCH_LINES = 500
_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0
# Deployed code chooses its output, and may choose long lines that are expensive to search for secrets, or variables
# whose mask is expensive to make. An ordinary line takes 10 us.
_CPU_SHARE = 0.2
"""The share of one core that the lines of an account may use."""
_CPU_BURST_SECONDS = 1.0
"""The CPU time that they may use at once."""


class AccountLimits:
    """The limits of all accounts."""

    def __init__(self, budget: LineBudget, clock: Callable[[], float]) -> None:
        """`clock` returns seconds and is never set back."""
        self._budget = budget
        self._clock = clock
        self._wait_until: dict[int, float] = {}
        self._failures: dict[int, int] = {}
        self._cpu: dict[int, tuple[float, float]] = {}
        """CPU seconds left, and the time of that figure."""
        self._most_events: dict[int, int] = {}
        """How many events a batch of an account may have, if the edge has refused a batch as too large."""

    def may_send(self, account_id: int) -> bool:
        """Return True if the account does not wait."""
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
        """Note that a batch is stored. The limit of the edge may have been raised: find out step by step."""
        self._failures.pop(account_id, None)
        most = self._most_events.pop(account_id, BATCH_LINES)
        if most < BATCH_LINES:
            self._most_events[account_id] = most + 1

    def note_too_large(self, account_id: int, events: int) -> None:
        """Note that the edge has refused a batch of several events, and may accept half of it."""
        self._most_events[account_id] = max(1, events // 2)

    def note_refused(self, account_id: int) -> None:
        """Note that the edge has refused a batch for good. If one event is too large, more of the others are not."""
        self._most_events.pop(account_id, None)

    def note_failure(self, account_id: int, seconds: float | None) -> None:
        """Let the account wait for `seconds`; None: longer after each failure in a row."""
        if not self.may_send(account_id):
            # Requests in flight at once fail together.
            return
        failures = self._failures.get(account_id, 0)
        self._failures[account_id] = failures + 1
        wait = seconds or min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(failures, 10))
        self._wait_until[account_id] = self._clock() + wait
