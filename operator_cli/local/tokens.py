"""`pharos token create --local`: the first token of a person, without the API, which needs one."""

import argparse
from typing import Any

from operator_cli.durations import format_utc_minute
from operator_cli.local.door import request_as_operator
from operator_cli.messages import print_result


def create_token_locally(
    arguments: argparse.Namespace,
    *,
    account: str | None,
    person: str | None,
    scopes: list[str] | None,
    name: str | None,
    lifetime_seconds: int | None,
) -> int:
    """Create a token and print its secret. None: the only account, its only owner, all scopes, a name of its own,
    without end. Returns exit status 0. Raises `CommandFailed`."""
    from pipeline_contracts.operator_requests import CreateToken

    request = CreateToken(
        account=account, person=person, scopes=scopes, name=name, lifetime_seconds=lifetime_seconds
    )
    return print_result(arguments, request_as_operator(arguments, request), _show, quiet="api_token")


def _show(token: dict[str, Any]) -> None:
    until = "" if token["expires_at"] is None else f" until {format_utc_minute(token['expires_at'])}"
    print(
        f"Token {token['id']} of {token['person']['email']} for the account {token['account']['slug']}{until}, "
        f"shown this once:\n{token['api_token']}"
    )
