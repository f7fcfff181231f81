"""Chooses the installation and the credential of a command.

The first of these that exists:

1. `--profile NAME` or `--data DIR`
2. `PHAROS_URL` with `PHAROS_TOKEN` (or `PHAROS_TOKEN_FILE`)
3. `PHAROS_PROFILE`
4. the data folder of a `pharos up` in the current folder (`./.pharos`)
5. the current profile of `pharos login`

The data folder comes before the current profile, because a person who works in the folder of a local installation
usually means this installation, and a command that was meant for it must not reach production. If both exist, a note
on standard error names the choice. A data folder is used without `--data` only if its credentials are private to this
user: otherwise a folder in somebody's repository could direct commands to another server.
"""

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from operator_cli.api.profiles import Profile, Profiles, read_profiles
from operator_cli.credentials import DEFAULT_DATA, check_url, read_credentials
from operator_cli.errors import NotLoggedIn, UsageError

URL_VARIABLE: Final = "PHAROS_URL"
TOKEN_VARIABLE: Final = "PHAROS_TOKEN"
TOKEN_FILE_VARIABLE: Final = "PHAROS_TOKEN_FILE"
PROFILE_VARIABLE: Final = "PHAROS_PROFILE"
# Each of these shows that PHAROS_URL configures a client library. Applications that Pharos deploys have the first one.
CLIENT_VARIABLES: Final = ("PHAROS_INGEST_KEY", "PHAROS_QUEUES")


@dataclass(frozen=True, slots=True)
class Target:
    """An installation and how a command authenticates to it."""

    base_url: str
    """The API root, which ends in `/api`."""
    token: str | None = field(repr=False)
    """None for the few operations that need no credential."""
    source: str
    """The credential in words: "the token of the profile prod"."""
    remedy: str
    """What to do if the installation refuses the credential."""
    data: Path | None = None
    """The data folder of a local `pharos up`; None for another installation."""


def find_target(
    arguments: argparse.Namespace, environment: Mapping[str, str] = os.environ, *, announces: bool = True
) -> Target:
    """Return the target of a command. Raises `CommandFailed`.

    `announces`: print the choice at a terminal if both a data folder and a current profile exist.
    """
    profile: str | None = getattr(arguments, "profile", None)
    data: Path | None = getattr(arguments, "data", None)
    if profile is not None and data is not None:
        raise UsageError("--profile and --data name two installations: leave one of them out.")
    if profile is not None:
        return _from_profile(read_profiles().find(profile))
    if data is not None:
        return _from_data(data)
    if from_variables := _from_variables(environment):
        return from_variables
    if name := environment.get(PROFILE_VARIABLE):
        return _from_profile(read_profiles().find(name))
    profiles = read_profiles()
    if has_local_installation():
        if announces:
            _note_choice(profiles)
        return _from_data(DEFAULT_DATA)
    if profiles.default is not None:
        return _from_profile(profiles.default)
    raise NotLoggedIn(_describe_no_target(profiles))


def has_local_installation() -> bool:
    """Return True if this user has run `pharos up` in the current folder."""
    try:
        status = (DEFAULT_DATA / "credentials.json").stat()
    except OSError:
        return False
    return status.st_uid == os.geteuid() and not status.st_mode & 0o077


def check_token(token: str, source: str) -> str:
    """Return the token without surrounding space. Raises `CommandFailed`, without the token, if a header cannot
    contain it."""
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise NotLoggedIn(
            f"{source[0].upper()}{source[1:]} is not a token: it is empty or has characters that tokens do not have."
        )
    return token


def _from_profile(profile: Profile) -> Target:
    source = f"the token of the profile {profile.name}"
    remedy = f"Log in again with `pharos login {_host_url(profile.url)} --profile {profile.name}`."
    return Target(check_url(profile.url), check_token(profile.token, source), source, remedy)


def _from_data(data: Path) -> Target:
    credentials = read_credentials(data)
    file = data / "credentials.json"
    base_url, token = credentials.get("base_url"), credentials.get("api_token")
    if not isinstance(base_url, str) or not isinstance(token, str):
        raise NotLoggedIn(
            f"{file} has no base_url or no api_token. Restart `pharos up` to have it completed."
        )
    source = f"the api_token of {file}"
    remedy = "Restart `pharos up`: it replaces a token that was revoked."
    return Target(check_url(base_url), check_token(token, source), source, remedy, data)


def _from_variables(environment: Mapping[str, str]) -> Target | None:
    """Return the target of the environment variables, None if they name none. Raises `CommandFailed`."""
    url, token = environment.get(URL_VARIABLE), environment.get(TOKEN_VARIABLE)
    file = environment.get(TOKEN_FILE_VARIABLE)
    if token and file:
        raise UsageError(f"{TOKEN_VARIABLE} and {TOKEN_FILE_VARIABLE} are both set: unset one of them.")
    if not url and not token and not file:
        return None
    if not url:
        name = TOKEN_VARIABLE if token else TOKEN_FILE_VARIABLE
        raise UsageError(f"{name} is set without {URL_VARIABLE}: set both, or name a profile with --profile.")
    if not token and not file:
        if any(environment.get(name) for name in CLIENT_VARIABLES):
            return None
        raise UsageError(
            f"{URL_VARIABLE} is set without {TOKEN_VARIABLE}: set both, or name a profile with --profile."
        )
    name = TOKEN_VARIABLE if token else TOKEN_FILE_VARIABLE
    source = f"the token in {name}"
    remedy = f"Set {name} to a token that `pharos token create` has made."
    return Target(check_url(url), check_token(token or _read_token_file(file or ""), source), source, remedy)


def _read_token_file(file: str) -> str:
    try:
        return Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise NotLoggedIn(
            f"{TOKEN_FILE_VARIABLE} names {file}, which cannot be read ({type(error).__name__})."
        ) from None


def _note_choice(profiles: Profiles) -> None:
    """Note at a terminal that the data folder was used instead of the current profile."""
    if profiles.default is not None and sys.stderr is not None and sys.stderr.isatty():
        name = profiles.default.name
        print(
            f"pharos: Using the local installation in {DEFAULT_DATA}; --profile {name} uses {profiles.default.url}.",
            file=sys.stderr,
        )


def _describe_no_target(profiles: Profiles) -> str:
    if (DEFAULT_DATA / "credentials.json").exists():
        return (
            f"{DEFAULT_DATA}/credentials.json is readable by others or belongs to another user, so it is used only "
            f"with --data {DEFAULT_DATA}."
        )
    if profiles.by_name:
        return "No profile is current. Choose one with `pharos profile use NAME`, or name one with --profile."
    return (
        "Not logged in. Log in to an installation with `pharos login URL`, start one here with `pharos up`, or name "
        "the folder of a running one with --data."
    )


def _host_url(url: str) -> str:
    return url.removesuffix("/api")
