"""Who delivers to which webhook: networks that have proved it lately, and those that fail to, again and again."""

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

from pipeline_contracts.errors import Unavailable

_MOST = 4096
"""Networks of webhooks that are remembered; those of longest ago are forgotten."""
_PROVEN_SECONDS = 86_400.0
_MOST_FAILURES = 100
"""Deliveries without a good signature at once, and then one a second."""

_Key = tuple[str, str]


class Senders:
    """What is known of the networks that deliver to each webhook. It is kept in memory: a restart forgets it."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._proven: OrderedDict[_Key, float] = OrderedDict()
        # How many failures are left, as of when.
        self._failing: OrderedDict[_Key, tuple[float, float]] = OrderedDict()

    def are_proven(self, hook: str, network: str) -> bool:
        """Whether a delivery from this network had a good signature in the last 24 hours."""
        at = self._proven.get((hook, network))
        return at is not None and self._clock() - at < _PROVEN_SECONDS

    def note_proof(self, hook: str, network: str) -> None:
        """A good signature."""
        self._failing.pop((hook, network), None)
        self._proven[hook, network] = self._clock()
        self._proven.move_to_end((hook, network))
        if len(self._proven) > _MOST:
            self._proven.popitem(last=False)

    def note_failure(self, hook: str, network: str) -> None:
        """No good signature, or no whole body."""
        self._failing[hook, network] = (self._left(hook, network) - 1, self._clock())
        self._failing.move_to_end((hook, network))
        if len(self._failing) > _MOST:
            self._failing.popitem(last=False)

    def check(self, hook: str, network: str) -> None:
        """Raises `Unavailable` for a network that has failed too often, before anything of its body is read.

        This machine's own addresses have no limit: a proxy there sends everybody's deliveries.
        """
        if self.are_proven(hook, network) or _is_of_this_machine(network) or self._left(hook, network) >= 1:
            return
        raise Unavailable(
            f"More than {_MOST_FAILURES} deliveries from {network} to {hook} had no good signature. Set the webhook's "
            "secret on both sides, and deliver it again.",
            retry_after=_MOST_FAILURES,
        )

    def _left(self, hook: str, network: str) -> float:
        left, at = self._failing.get((hook, network), (float(_MOST_FAILURES), self._clock()))
        return min(left + self._clock() - at, float(_MOST_FAILURES))


def _is_of_this_machine(network: str) -> bool:
    try:
        # A connection by a socket file has no address.
        return not network or ipaddress.ip_network(network).is_loopback
    except ValueError:
        return False
