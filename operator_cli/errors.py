"""Errors that end a command, each with its exit status. `docs/reference/command-line.md` lists the statuses."""

from typing import Final

FAILED: Final = 1
USAGE: Final = 2
AWAITS_APPROVAL: Final = 3
"""Not an error: the request waits until a second person has approved it."""
NOT_LOGGED_IN: Final = 4
NOT_FOUND: Final = 5
INTERRUPTED: Final = 130


class CommandFailed(Exception):
    """A message for people: what went wrong and what to do next."""

    exit_status: int = FAILED


class UsageError(CommandFailed):
    """The arguments contradict each other in a way that the parser cannot detect."""

    exit_status = USAGE


class NotLoggedIn(CommandFailed):
    """No credential was found, or the installation refused it."""

    exit_status = NOT_LOGGED_IN


class NoSuchName(CommandFailed):
    """Nothing has the name or ID that was given."""

    exit_status = NOT_FOUND


class InstallationUnreachable(CommandFailed):
    """The installation does not respond: transient, a retry may succeed."""

    def __init__(self, message: str, *, may_have_effect: bool = False) -> None:
        super().__init__(message)
        self.may_have_effect = may_have_effect
        """True if the installation may have processed the request, because it was sent."""
