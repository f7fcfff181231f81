"""How a command says that it could not do its work."""


class CommandFailed(Exception):
    """A message for people: what went wrong and what to do next."""


class NotReached(CommandFailed):
    """The installation does not answer just now. Who waits for something may ask again."""
