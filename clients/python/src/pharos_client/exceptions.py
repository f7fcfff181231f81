"""Describes exceptions, and reports uncaught ones."""

from __future__ import annotations

import sys
import threading
import traceback
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pharos_client.encoding import cut, describe

if TYPE_CHECKING:
    from pharos_client.client import Client

# The client to which the hooks report, once they are installed.
_client: Client | None = None


def name_exception(error: BaseException) -> str:
    """Return the type's name, with its module unless it is built in."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def format_traceback(error: BaseException) -> str:
    """Return the stack with causes, as Python prints it; without its middle if it is over 32,768 characters long."""
    try:
        return cut("".join(traceback.format_exception(type(error), error, error.__traceback__)))
    except Exception:  # `__str__` of the exception may fail.
        return cut("".join(traceback.format_tb(error.__traceback__)) + name_exception(error))


def describe_exception(error: BaseException) -> dict[str, Any]:
    """Return the fields of an exception event."""
    return {
        "name": name_exception(error),
        "title": cut(describe(error), 2000) or name_exception(error),
        "details": format_traceback(error),
    }


def install_hooks(client: Client) -> None:
    """Report uncaught exceptions of the program and of its threads; the former hooks are called as well.

    A second call only changes the client.
    """
    global _client
    is_installed, _client = _client is not None, client
    if is_installed:
        return
    former_hook, former_thread_hook = sys.excepthook, threading.excepthook

    def report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if _client is not None and not issubclass(kind, KeyboardInterrupt):
            _client.capture_exception(error, severity="critical")
        former_hook(kind, error, trace)

    def report_of_thread(arguments: threading.ExceptHookArgs) -> None:
        error = arguments.exc_value
        if _client is not None and error is not None and not issubclass(arguments.exc_type, SystemExit):
            name = arguments.thread.name if arguments.thread else ""
            _client.capture_exception(error, attributes={"thread.name": name})
        former_thread_hook(arguments)

    sys.excepthook = report
    threading.excepthook = report_of_thread
