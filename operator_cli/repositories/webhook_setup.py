"""The webhook of a repository: its URL, its secret, and where to enter them at the Git host."""

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from operator_cli.api.target import Target
from operator_cli.errors import CommandFailed
from operator_cli.read_text import read_text

_SECRET_BYTES = 1024
_LOCAL_ADDRESSES = ("http://127.0.0.1", "http://localhost")


def add_secret_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--secret-kind` and `--secret-file`."""
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--secret-kind",
        choices=("signing", "plain"),
        help="for GitLab, which signs deliveries (signing) or, in old versions, sends the secret itself (plain). "
        "By default signing, and for a new secret the present kind",
    )
    # Former names of these options.
    for name, value in (("--plain-secret", "plain"), ("--signing", "signing")):
        kind.add_argument(name, action="store_const", const=value, dest="secret_kind", help=argparse.SUPPRESS)
    parser.add_argument(
        "--secret-file",
        metavar="FILE",
        help="use the webhook's secret in this file, for example one that GitLab has created; - "
        "reads standard input (by default a new one is generated and shown)",
    )


def read_secret(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the members `secret` and `secret_kind` of a request. Raises `CommandFailed`."""
    file = arguments.secret_file
    secret = None if file is None else read_text(file, _SECRET_BYTES, f"{_SECRET_BYTES} bytes").strip()
    return {"secret": secret, "secret_kind": arguments.secret_kind}


def save_secret(target: Target, repository: Mapping[str, Any], *, is_new: bool) -> None:
    """Save the secret in the credentials of a local `pharos up`: for a new repository, or one that they contain."""
    if target.data is None or repository["webhook"] is None:
        return
    # Imported here: other installations do not need it.
    from operator_cli.credentials import save_repository

    saved = {"id": repository["id"], "kind": repository["kind"], "secret": repository["webhook"]["secret"]}
    try:
        save_repository(target.data, saved, repository["project"]["id"], is_new=is_new)
    except CommandFailed as error:
        # The request has succeeded, and the secret is shown only this once.
        print(f"pharos: {error}", file=sys.stderr)


def show_webhook(repository: Mapping[str, Any]) -> None:
    """Print the URL and the secret of the webhook, and where to enter them."""
    webhook = repository["webhook"]
    if webhook is None:
        return
    # Imported here: it is slow to import.
    from git_hosts.all_hosts import HOSTS

    print(
        f"Its webhook, with the secret, which is shown this once:\n  {webhook['url']}\n  {webhook['secret']}"
    )
    print(HOSTS[repository["kind"]].webhook_setup[webhook["secret_kind"]])
    if webhook["url"].startswith(_LOCAL_ADDRESSES):
        print(
            "If Git hosts reach this installation under another name, use that name before /api; "
            "PHAROS_PUBLIC_URL sets it."
        )
