"""Errors that end a command with exit status 1."""


class CommandFailed(Exception):
    """A message for people: what went wrong and what to do next."""


class InstallationUnreachable(CommandFailed):
    """The installation does not respond: transient, a retry may succeed."""
