"""The webhook of a repository: where its Git host sends to, the secret of both, and where the host wants them."""

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from git_hosts.all_hosts import HOSTS
from operator_cli.credentials import base_url_of, keep_repository
from operator_cli.failure import CommandFailed
from operator_cli.process_settings import load_settings
from operator_cli.read_text import read_text
from pipeline_contracts.settings import Settings

_SECRET_BYTES = 1024


def add_secret_arguments(parser: argparse.ArgumentParser) -> None:
    """`--plain-secret` and `--secret-file`."""
    parser.add_argument(
        "--plain-secret",
        action="store_true",
        help="for a GitLab that has no signing tokens: its secret token is sent as it is",
    )
    parser.add_argument(
        "--secret-file",
        metavar="FILE",
        help="use the webhook's secret in this file, for example one that GitLab has made; - reads standard input "
        "(a new one is made and shown)",
    )


def read_secret_wanted(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the action is told about the secret. Raises `CommandFailed`."""
    file = arguments.secret_file
    given = None if file is None else read_text(file, _SECRET_BYTES, f"{_SECRET_BYTES} bytes").strip()
    return {"secret": given, "plain_secret": arguments.plain_secret}


def complete_webhook(arguments: argparse.Namespace, told: dict[str, Any], *, is_new: bool) -> dict[str, Any]:
    """What the action has told, its `webhook` with the `url`. In the credentials of a `pharos up` the secret is kept as
    well, by project: of a repository that `is_new`, or that they have."""
    if told["webhook"] is None:
        return told
    settings = load_settings()
    if settings.database_url is None:
        repository = {"id": told["id"], "kind": told["kind"], "secret": told["webhook"]["secret"]}
        try:
            keep_repository(arguments.data, repository, told["project"]["id"], is_new=is_new)
        except CommandFailed as failure:
            # It is done, and the secret is shown now or never.
            print(f"pharos: {failure}", file=sys.stderr)
    url = f"{_base_url(arguments, settings)}/repositories/{told['id']}/webhook"
    return {**told, "webhook": {"url": url, **told["webhook"]}}


def _base_url(arguments: argparse.Namespace, settings: Settings) -> str:
    """Of the API, as Git hosts reach it."""
    if settings.public_url is None:
        return base_url_of(arguments.data)
    return f"{settings.public_url.rstrip('/')}/api"


def show_webhook(told: Mapping[str, Any]) -> None:
    """The address and the secret, and where to paste them."""
    webhook = told["webhook"]
    if webhook is None:
        return
    print(
        f"Its webhook, with the secret, which is shown this once:\n  {webhook['url']}\n  {webhook['secret']}"
    )
    print(HOSTS[told["kind"]].webhook_setup[webhook["kind"]])
    if load_settings().public_url is None:
        print(
            "Where Git hosts reach this under another name, put that before /api; PHAROS_PUBLIC_URL sets it."
        )
