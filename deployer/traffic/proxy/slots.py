"""Shares the number of requests that the proxy can handle at once (its slots) among the environments."""

from deployer.traffic.proxy.refusals import Unavailable


class Slots:
    """Counts the open requests, streams and WebSockets of each environment.

    An environment gets another slot while it has fewer slots than are free, so a single environment gets at most half
    of `total`. Each environment always gets its first `reserved` slots, even beyond `total`, so no environment can
    exclude another one.
    """

    def __init__(self, total: int, reserved: int = 16) -> None:
        self._total = total
        self._reserved = reserved
        self._free = total
        self._taken: dict[int, int] = {}

    @property
    def taken(self) -> int:
        """Return the number of slots that all environments together have taken."""
        return self._total - self._free

    def take(self, environment_id: int) -> None:
        """Take a slot. Raises `Unavailable` if the environment has used up its share."""
        taken = self._taken.get(environment_id, 0)
        if taken >= max(self._free, self._reserved):
            raise Unavailable(
                f"The application has {taken:,} requests open already, which is its share of the proxy's "
                f"{self._total:,}. Send the request again when some have been answered; if they are not, the "
                "application does not keep up."
            )
        self._taken[environment_id] = taken + 1
        self._free -= 1

    def release(self, environment_id: int) -> None:
        """Release a slot of the environment."""
        self._free += 1
        left = self._taken[environment_id] - 1
        if left:
            self._taken[environment_id] = left
        else:
            del self._taken[environment_id]
