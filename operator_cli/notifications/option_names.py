"""Converts errors of the API about fields to the names of the options that the person has given."""

import argparse
import re
from collections.abc import Callable
from functools import wraps
from typing import Final

from operator_cli.api.problems import ApiRefused

Handler = Callable[[argparse.Namespace], int]

_FIELD = re.compile(r"^  (?P<group>settings\.|secrets\.)?(?P<name>[a-z_]+)(?P<rest>[^:\n]*:)", re.MULTILINE)
_OPTIONS: Final = {
    "aggregation": "--aggregation",
    "direction": "--above or --below",
    "ends_at": "--for or --until",
    "environment": "--environment",
    "kind": "KIND",
    "kinds": "--kind",
    "min_severity": "--min-severity",
    "name": "NAME",
    "pending_seconds": "--pending (in seconds)",
    "project": "--project",
    "quiet_hours": "--quiet-hours",
    "reason": "--reason",
    "recipients": "--channel or --person",
    "recovery": "--recovery",
    "seconds": "--for (in seconds)",
    "service": "--service",
    "severity": "--severity",
    "starts_at": "--from",
    "target": "TARGET",
    "threshold": "--above or --below",
    "type": "TYPE",
    "until": "--until",
    "window_seconds": "--window (in seconds)",
}


def names_options(handler: Handler) -> Handler:
    """Decorate a handler so that errors about fields name the options that set them."""

    @wraps(handler)
    def run(arguments: argparse.Namespace) -> int:
        try:
            return handler(arguments)
        except ApiRefused as error:
            message = _FIELD.sub(_name_option, str(error))
            raise ApiRefused(message, error.status, error.slug, error.document) from None

    return run


def _name_option(found: re.Match[str]) -> str:
    group, name, rest = found["group"], found["name"], found["rest"]
    if group is None:
        return f"  {_OPTIONS.get(name, name)}{rest}"
    option = f"--{name.replace('_', '-')}"
    return f"  {option}{'-file' if group == 'secrets.' else ''}{rest}"
