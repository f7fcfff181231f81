"""Options for the settings and secrets of channels, derived from the catalogue of channel types.

Commands ask for secrets, or read them from a file or standard input, because other users of a machine can read the
arguments of its processes.
"""

import argparse
import sys
from collections.abc import Iterable
from typing import Any, Final

from control_domain.notifications.channel_types import CHANNEL_TYPES, ChannelField
from operator_cli.arguments import complete
from operator_cli.errors import CommandFailed, UsageError
from operator_cli.read_text import read_text

_MAX_SECRET_KIB: Final = 4
_MADE_BY_PHAROS: Final = frozenset({("webhook", "signing_secret")})
"""Secrets that the installation creates if they are left out."""


def add_field_arguments(parser: argparse.ArgumentParser, fields: Iterable[ChannelField]) -> None:
    """Add `--chat-id VALUE` for each setting and `--bot-token-file FILE` for each secret."""
    for field in fields:
        option, help_ = field.name.replace("_", "-"), _describe(field)
        if field.is_secret:
            file = parser.add_argument(
                f"--{option}-file",
                metavar="FILE",
                dest=f"secret_{field.name}",
                help=f"file with the secret, or - for standard input: {help_}",
            )
            complete(file, "file")
        else:
            parser.add_argument(
                f"--{option}",
                metavar="VALUE",
                required=field.is_required,
                dest=f"setting_{field.name}",
                help=help_,
            )


def _describe(field: ChannelField) -> str:
    text = _lower_first(field.description)
    return f"{text} ({field.default})" if field.default else text


def _lower_first(text: str) -> str:
    """Return the text with a small first letter, unless it begins with an abbreviation."""
    return text if text[:2].isupper() else text[:1].lower() + text[1:]


def list_all_fields() -> list[ChannelField]:
    """Return the settings and secrets of all types that `set` may change, each name once."""
    found: dict[tuple[str, bool], ChannelField] = {}
    for channel_type in CHANNEL_TYPES.values():
        for field in channel_type.list_fields():
            described = f"{channel_type.name}: {_lower_first(field.description)}"
            before = found.get((field.name, field.is_secret))
            text = described if before is None else f"{before.description}; {described}"
            found[field.name, field.is_secret] = ChannelField(
                field.name, text, field.is_secret, False, "", field.max_length, field.format
            )
    return list(found.values())


def read_settings(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the settings that were given."""
    return _given(arguments, "setting_")


def read_new_secrets(arguments: argparse.Namespace, type_name: str) -> dict[str, str]:
    """Return the secrets of a new channel; asks for required ones without a file. Raises `CommandFailed`."""
    secrets = read_given_secrets(arguments)
    for field in CHANNEL_TYPES[type_name].list_fields():
        is_needed = field.is_secret and field.is_required and (type_name, field.name) not in _MADE_BY_PHAROS
        if is_needed and field.name not in secrets:
            secrets[field.name] = ask_for_secret(field.name, type_name)
    return secrets


def read_given_secrets(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the secrets whose files were given. Raises `CommandFailed`."""
    files = _given(arguments, "secret_")
    if list(files.values()).count("-") > 1:
        raise UsageError("Standard input can be read once: name - only once.")
    return {name: _read_file(file) for name, file in files.items()}


def _given(arguments: argparse.Namespace, prefix: str) -> dict[str, str]:
    members: dict[str, Any] = vars(arguments)
    return {
        name.removeprefix(prefix): value
        for name, value in members.items()
        if name.startswith(prefix) and value is not None
    }


def _read_file(file: str) -> str:
    return read_text(file, _MAX_SECRET_KIB * 1024, f"{_MAX_SECRET_KIB} KiB").strip()


def _describe_secret(name: str, type_name: str) -> str:
    """Return the meaning of the secret and where to find it."""
    known = CHANNEL_TYPES.get(type_name)
    fields = known.list_fields() if known is not None else ()
    return next((field.description for field in fields if field.is_secret and field.name == name), name) + "."


def ask_for_secret(name: str, type_name: str) -> str:
    """Ask for a secret of a channel of this type at the terminal, without echo, and return it. Raises
    `CommandFailed`."""
    label = name.replace("_", " ")
    if sys.stdin is None or not sys.stdin.isatty():
        option = f"--{name.replace('_', '-')}-file"
        raise CommandFailed(
            f"Without a terminal, pharos cannot ask for the secret {label}: pass it with {option} FILE, or with "
            f"{option} - on standard input."
        )
    # Imported here: scripts do not need it.
    import getpass

    try:
        return getpass.getpass(
            f"{_describe_secret(name, type_name)}\n{label.capitalize()} (not shown): "
        ).strip()
    except EOFError:
        raise CommandFailed("Nothing was entered.") from None
