"""Checks the server that this user is logged in to."""

from operator_cli.api.client import Api
from operator_cli.api.target import Target
from operator_cli.doctor.finding import Finding
from operator_cli.errors import CommandFailed

_SECONDS = 5.0


def check_server(target: Target) -> Finding:
    """Return whether the server can be reached and accepts the token."""
    try:
        Api(target, seconds=_SECONDS, is_quiet=True).get("account")
    except CommandFailed as error:
        return Finding("Server", "error", str(error))
    url = target.base_url.removesuffix("/api")
    return Finding("Server", "ok", f"{url} answers and accepts {target.source}")
