"""How an operator's wish is turned down."""


class Refused(Exception):
    """What was asked for does not exist, cannot be told which, or cannot be; the message says what to do."""
