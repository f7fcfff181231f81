"""Commands `pharos login` and `pharos logout`."""

import argparse
import sys
from typing import Any
from urllib.parse import urlsplit

from operator_cli.api.client import Api
from operator_cli.api.problems import ApiRefused
from operator_cli.api.profiles import Profile, Profiles, check_profile_name, read_profiles, write_profiles
from operator_cli.api.target import PROFILE_VARIABLE, Target, check_token, has_local_installation
from operator_cli.arguments import complete
from operator_cli.credentials import DEFAULT_DATA, check_url
from operator_cli.errors import CommandFailed, InstallationUnreachable, NotLoggedIn, UsageError
from operator_cli.messages import qualify_commands

_MAX_SECRET_BYTES = 4096
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


def register_login(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "login",
        help="log in to an installation, and store its URL and token",
        description="Check a token with an installation and store both as a profile, which later "
        "commands use. The command asks for the token, or reads it from standard input; `pharos "
        "token create` or an administrator creates one. With --invitation, it reads the secret "
        "of an invitation instead, and accepting the invitation creates the token.",
    )
    parser.add_argument(
        "url", metavar="URL", help="the address of the installation: https://pharos.example.com"
    )
    parser.add_argument(
        "--profile",
        metavar="NAME",
        help="the name of the profile (the host of the URL); replaces one of this name",
    )
    parser.add_argument("--invitation", action="store_true", help="accept an invitation to an account")
    parser.add_argument(
        "--name",
        metavar="NAME",
        help="with --invitation: your name, unless you have an account already",
    )
    parser.set_defaults(run=_log_in)


def _log_in(arguments: argparse.Namespace) -> int:
    url = check_url(_with_scheme(arguments.url))
    name = check_profile_name(arguments.profile or _name_by_host(url))
    if arguments.name is not None and not arguments.invitation:
        raise UsageError("--name is for --invitation: a token has the name of its person already.")
    _warn_about_plain_http(url)
    if arguments.invitation:
        profile = _join(name, url, arguments.name)
    else:
        profile = _check(Profile(name, url, _read_secret("Token")))
        _store(profile)
    account = "" if profile.account is None else f" to the account {profile.account}"
    print(f"Logged in{account} at {url.removesuffix('/api')}. The profile {name} is now the current one.")
    if has_local_installation():
        print(
            f"In this folder, commands still use the local installation in {DEFAULT_DATA}; "
            f"--profile {name} or {PROFILE_VARIABLE}={name} chooses the profile."
        )
    return 0


def _with_scheme(url: str) -> str:
    """Return the URL; a host alone is reached by HTTPS, this machine by HTTP."""
    if "://" in url:
        return url
    host = url.partition("/")[0].rpartition(":")[0] or url.partition("/")[0]
    return f"http://{url}" if host in _LOCAL_HOSTS else f"https://{url}"


def _name_by_host(url: str) -> str:
    """Return the host, with the port unless it is the usual one."""
    parts = urlsplit(url)
    host = (parts.hostname or "").replace(":", "-").strip("-")
    return host if parts.port is None else f"{host}-{parts.port}"


def _warn_about_plain_http(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "http" and parts.hostname not in _LOCAL_HOSTS:
        print(
            "pharos: The token is sent unencrypted, because the URL is http://. Use https:// outside of a trusted "
            "network.",
            file=sys.stderr,
        )


def _read_secret(label: str) -> str:
    """Return a secret from a prompt without echo, or from standard input. Raises `CommandFailed`."""
    source = f"the {label.lower()} that you entered"
    if sys.stdin is not None and sys.stdin.isatty():
        # Imported here: scripts do not need it.
        import getpass

        try:
            return check_token(getpass.getpass(f"{label} (not shown): "), source)
        except EOFError:
            raise NotLoggedIn("Nothing was entered.") from None
    content = b"" if sys.stdin is None else sys.stdin.buffer.read(_MAX_SECRET_BYTES)
    text = content.decode(errors="replace")
    if not text.strip():
        raise NotLoggedIn(
            f"Nothing was entered. Without a terminal, pass the {label.lower()} on standard input: "
            "`pharos login URL < FILE`."
        )
    return check_token(text, source)


def _join(profile_name: str, url: str, name: str | None) -> Profile:
    """Return the stored profile of somebody who joins with an invitation. Raises `CommandFailed`.

    An invitation works once and its token is shown once, so the token must be stored or printed even if later steps
    fail.
    """
    write_profiles(read_profiles())
    profile = Profile(profile_name, url, _get_token(url, name))
    try:
        _store(profile)
    except CommandFailed as error:
        raise CommandFailed(
            f"{error}\nYou have joined. Keep your token, which is shown only now: {profile.token}\n"
            "`pharos login URL` stores it."
        ) from None
    try:
        profile = _check(profile)
    except CommandFailed as error:
        message = f"pharos: The token is stored, but not checked yet: {error} `pharos whoami` checks it."
        print(qualify_commands(message), file=sys.stderr)
        return profile
    _store(profile)
    return profile


def _store(profile: Profile) -> None:
    """Store the profile as the current one. Raises `CommandFailed`."""
    write_profiles(read_profiles().with_profile(profile))


def _get_token(url: str, name: str | None) -> str:
    """Return the token of a new member. Asks for the invitation, and for the name if it is needed and missing. Raises
    `CommandFailed`."""
    secret = _read_secret("Invitation")
    try:
        return _accept_invitation(url, secret, name)
    except ApiRefused as error:
        errors = error.document.get("errors")
        fields = [each.get("field") for each in errors] if isinstance(errors, list) else []
        if name is not None or fields != ["name"]:
            raise
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError("You have no account on this installation yet: give your name with --name.")
    print("Your name: ", end="", file=sys.stderr, flush=True)
    return _accept_invitation(url, secret, sys.stdin.readline().strip())


def _accept_invitation(url: str, secret: str, name: str | None) -> str:
    """Return the token of a new member. Raises `CommandFailed`."""
    target = Target(url, None, "the invitation", "Ask the person who invited you for a new one.")
    body = {"invitation": secret} | ({} if name is None else {"name": name})
    try:
        with Api(target) as api:
            data: dict[str, Any] = api.post("invitations", "accept", body=body)
    except InstallationUnreachable as error:
        if not error.may_have_effect:
            raise
        raise InstallationUnreachable(
            f"{error} You may have joined already, without a token: try again, and if the invitation is refused then, "
            "ask to be removed (`pharos person remove`) and invited again.",
            may_have_effect=True,
        ) from None
    return check_token(str(data["api_token"]), "the token of the answer")


def _check(profile: Profile) -> Profile:
    """Return the profile with its account. Raises `CommandFailed` if the installation refuses the token."""
    target = Target(profile.url, profile.token, "this token", "Create one with `pharos token create`.")
    try:
        with Api(target) as api:
            account = api.get("account")
    except ApiRefused as error:
        if error.slug != "missing-scope":
            raise
        # The token is valid, and commands that need other scopes work.
        print("pharos: The token may not read its account (account:read).", file=sys.stderr)
        return profile
    return Profile(profile.name, profile.url, profile.token, str(account["slug"]))


def register_logout(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "logout",
        help="remove a stored token",
        description="Remove a profile with its token from this machine. The token itself stays "
        "valid: `pharos token revoke` revokes it.",
    )
    profile = parser.add_argument(
        "profile", nargs="?", metavar="PROFILE", help="as `pharos profile list` shows it (the current one)"
    )
    complete(profile, "profile")
    parser.set_defaults(run=_log_out)


def _log_out(arguments: argparse.Namespace) -> int:
    profiles = read_profiles()
    name = profiles.find(arguments.profile).name if arguments.profile else _require_current(profiles)
    write_profiles(profiles.without(name))
    print(f"The profile {name} and its token are removed from this machine.")
    if profiles.current == name and len(profiles.by_name) > 1:
        print(qualify_commands("No profile is current now: `pharos profile use NAME` chooses one."))
    return 0


def _require_current(profiles: Profiles) -> str:
    if profiles.default is None:
        raise CommandFailed("No profile is current: name one, as `pharos profile list` shows it.")
    return profiles.default.name
