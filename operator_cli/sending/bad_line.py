"""Why a line of a file is not sent."""


class BadLine(Exception):
    """The message goes on from "line 7 …": is not valid JSON."""
