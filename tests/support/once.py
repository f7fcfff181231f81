"""What is made once a run, and of which tests have a copy each."""

from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Once:
    """Keeps what was made, each under its key, until the run ends.

    For what there are several kinds of: a parametrised fixture of the session is made anew whenever the next test is of
    another kind.
    """

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}

    async def __call__(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        if key not in self._made:
            self._made[key] = await make()
        made: T = self._made[key]
        return made
