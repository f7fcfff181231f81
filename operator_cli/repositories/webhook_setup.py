"""The webhook of a repository: its URL, its secret, and where to enter them at the Git host."""

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from git_hosts.all_hosts import HOSTS
from operator_cli.credentials import get_base_url, save_repository
from operator_cli.errors import CommandFailed
from operator_cli.read_text import read_text
from operator_cli.settings import load_settings
from pipeline_contracts.settings import Settings

_SECRET_BYTES = 1024


def add_secret_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--plain-secret` and `--secret-file`."""
    parser.add_argument(
        "--plain-secret",
        action="store_true",
        help="for a GitLab without signing tokens: it sends its secret token unsigned",
    )
    parser.add_argument(
        "--secret-file",
        metavar="FILE",
        help="use the webhook's secret in this file, for example one that GitLab has made; - reads standard input "
        "(a new one is generated and shown)",
    )


def read_secret_params(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters for the secret. Raises `CommandFailed`."""
    file = arguments.secret_file
    secret = None if file is None else read_text(file, _SECRET_BYTES, f"{_SECRET_BYTES} bytes").strip()
    return {"secret": secret, "plain_secret": arguments.plain_secret}


def add_webhook_url(arguments: argparse.Namespace, result: dict[str, Any], *, is_new: bool) -> dict[str, Any]:
    """Return the result with the `url` of its `webhook`.

    Also save the secret in the credentials of a `pharos up`: for a new repository, or one that they contain.
    """
    if result["webhook"] is None:
        return result
    settings = load_settings()
    if settings.database_url is None:
        repository = {"id": result["id"], "kind": result["kind"], "secret": result["webhook"]["secret"]}
        try:
            save_repository(arguments.data, repository, result["project"]["id"], is_new=is_new)
        except CommandFailed as error:
            # The action has succeeded, and the secret is shown only this once.
            print(f"pharos: {error}", file=sys.stderr)
    url = f"{_base_url(arguments, settings)}/repositories/{result['id']}/webhook"
    return {**result, "webhook": {"url": url, **result["webhook"]}}


def _base_url(arguments: argparse.Namespace, settings: Settings) -> str:
    """Return the API root that Git hosts reach."""
    if settings.public_url is None:
        return get_base_url(arguments.data)
    return f"{settings.public_url.rstrip('/')}/api"


def show_webhook(result: Mapping[str, Any]) -> None:
    """Print the URL and the secret of the webhook, and where to enter them."""
    webhook = result["webhook"]
    if webhook is None:
        return
    print(
        f"Its webhook, with the secret, which is shown this once:\n  {webhook['url']}\n  {webhook['secret']}"
    )
    print(HOSTS[result["kind"]].webhook_setup[webhook["kind"]])
    if load_settings().public_url is None:
        print("If Git hosts reach this under another name, put that before /api; PHAROS_PUBLIC_URL sets it.")
