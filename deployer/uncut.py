"""Work that a cancellation does not cut short."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from deployer.processes.shielded import carry_out
from storage_backends.end_task import end_task

P = ParamSpec("P")
T = TypeVar("T")


def uncut(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Have each call run to its end before a cancellation is raised.

    What it is for: whether a commit that is cut short counts nobody can tell, and its connection is lost.
    """

    @wraps(function)
    async def run(*given: P.args, **named: P.kwargs) -> T:
        return await carry_out(function(*given, **named))

    return run


@uncut
async def end_tasks(*tasks: "asyncio.Task[Any]") -> None:
    """Cancel all of them, and wait until they have ended; what they raise is dropped."""
    for task in tasks:
        task.cancel()
    for task in tasks:
        await end_task(task)
