"""Who delivers to which webhook: networks that have proved it lately, and those that fail to, again and again."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from pipeline_contracts.errors import Unavailable

_MOST_FAILING = 4096
"""Networks whose failures are remembered; those of longest ago are forgotten."""
_MOST_NETWORKS = 64
"""Networks of one webhook whose proofs are remembered: whoever has a secret makes only its own proofs forgotten."""
_MOST_PROOFS = 65_536
"""Of all webhooks."""
_PROVEN_SECONDS = 86_400.0
_MOST_FAILURES = 100
"""Deliveries without a good signature at once, and then one a second."""

_Key = tuple[str, str]


class Senders:
    """What is known of the networks that deliver to each webhook. It is kept in memory: a restart forgets it."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        # When the networks of each webhook proved themselves; webhooks and networks of longest ago first.
        self._proven: OrderedDict[str, OrderedDict[str, float]] = OrderedDict()
        self._proofs = 0
        # How many failures are left, as of when.
        self._failing: OrderedDict[_Key, tuple[float, float]] = OrderedDict()

    def are_proven(self, hook: str, network: str) -> bool:
        """Whether a delivery from this network had a good signature in the last 24 hours."""
        networks = self._proven.get(hook)
        at = None if networks is None else networks.get(network)
        return at is not None and self._clock() - at < _PROVEN_SECONDS

    def note_proof(self, hook: str, network: str) -> None:
        """A good signature."""
        self._failing.pop((hook, network), None)
        networks = self._proven.setdefault(hook, OrderedDict())
        self._proven.move_to_end(hook)
        self._proofs += network not in networks
        networks[network] = self._clock()
        networks.move_to_end(network)
        if len(networks) > _MOST_NETWORKS:
            self._forget_proof(hook)
        elif self._proofs > _MOST_PROOFS:
            # Only a webhook without any other proof takes the place of another webhook's.
            self._forget_proof(hook if len(networks) > 1 else next(iter(self._proven)))

    def _forget_proof(self, hook: str) -> None:
        """Forget this webhook's oldest proof."""
        networks = self._proven[hook]
        networks.popitem(last=False)
        self._proofs -= 1
        if not networks:
            del self._proven[hook]

    @contextmanager
    def attempt(
        self, hook: str, network: str, failures: tuple[type[Exception], ...], *, is_exempt: bool
    ) -> Iterator[None]:
        """Count a failure before work on a delivery begins, and undo the count unless the work raises one of
        `failures`. So concurrent deliveries cannot exceed the limit.

        Raises `Unavailable` for a network that has failed too often and is not exempt.
        """
        if not is_exempt:
            self.check(hook, network)
        self.note_failure(hook, network)
        try:
            yield
        except failures:
            raise
        except BaseException:
            self._take_back(hook, network)
            raise
        self._take_back(hook, network)

    def note_failure(self, hook: str, network: str) -> None:
        """No good signature, or no whole body."""
        self._failing[hook, network] = (max(self._left(hook, network) - 1, 0.0), self._clock())
        self._failing.move_to_end((hook, network))
        if len(self._failing) > _MOST_FAILING:
            self._failing.popitem(last=False)

    def _take_back(self, hook: str, network: str) -> None:
        # A valid signature resets all failures.
        if (hook, network) in self._failing:
            left = min(self._left(hook, network) + 1, float(_MOST_FAILURES))
            self._failing[hook, network] = (left, self._clock())

    def check(self, hook: str, network: str) -> None:
        """Raise `Unavailable` for a network that has failed too often. Call this before reading the body."""
        if self.are_proven(hook, network) or self._left(hook, network) >= 1:
            return
        raise Unavailable(
            f"More than {_MOST_FAILURES} deliveries from {network} to {hook} had no good signature. Set the webhook's "
            "secret on both sides, and deliver it again.",
            retry_after=_MOST_FAILURES,
        )

    def _left(self, hook: str, network: str) -> float:
        left, at = self._failing.get((hook, network), (float(_MOST_FAILURES), self._clock()))
        return min(left + self._clock() - at, float(_MOST_FAILURES))
