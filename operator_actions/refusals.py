"""The error of operations that an operator has asked for."""


class Refused(Exception):
    """The request cannot be carried out: an object does not exist, is ambiguous, or is in the wrong state.

    The message says what to do.
    """
