"""The text that `pharos up` prints once the platform serves requests."""

import shlex
from pathlib import Path
from typing import Any

from operator_cli.credentials import DEFAULT_DATA
from operator_cli.messages import format_command


def format_greeting(
    base_url: str,
    credentials: dict[str, Any],
    data: Path,
    *,
    sign_in: str,
    show_key: bool,
    environment: str | None = None,
) -> str:
    """Return the greeting: the address of the dashboard, how to sign in, and commands for the first minutes.

    `base_url` ends in `/api`. `sign_in` is the text of `format_sign_in_link`, `format_sign_in_command` or, once
    somebody has a password, `format_forgotten_password`. The commands name `environment`, where there are several.
    Without `show_key` the example reads the ingest key from its file, because output that is not a terminal ends up in
    logs.
    """
    address = base_url.removesuffix("/api")
    option = data_arguments(data)
    file = data / "credentials.json"
    key = credentials["ingest_key"]
    if not show_key:
        # The example puts this in double quotes, inside which a command substitution needs no quotes of its own.
        key = f"""$(sed -n 's/.*"ingest_key": "\\(.*\\)".*/\\1/p' {shlex.quote(str(file))})"""
    return f"""
Pharos is up. The dashboard:

  {address}

{sign_in}Documentation   {address}/docs
API reference   {base_url}/docs
Credentials     {file}

Try these in a second terminal, in this folder.
Deploy the sample application:
  {format_command(["deploy", *option, *([environment] if environment else [])])}
Send a log record, and look at it:
  curl -sS {base_url}/v1/ingest \\
    -H "Authorization: Bearer {key}" \\
    -H 'Content-Type: application/json' \\
    -d '{{"batch_id": "hello-1", "events": [{{"type": "log", "severity": "info", "title": "Hello"}}]}}'
  {format_command(["tail", *option, *(["--environment", environment] if environment else [])])}
Run a job under a heartbeat:
  {format_command(["run", *option, "--heartbeat", "1", "--", "echo", "done"])}
List all commands:
  {format_command(["--help"])}

Ctrl-C stops Pharos. It first stores all data that it has accepted.
"""


def format_sign_in_link(url: str) -> str:
    """Return how the first person signs in with a link, which contains a secret: print it on a terminal only."""
    return f"""Sign in with this link, once, within 24 hours:

  {url}

"""


def format_sign_in_command(data: Path) -> str:
    """Return the command that prints the first person's sign-in link."""
    return f"""Nobody has a password yet. This command prints a sign-in link:

  {format_command(["sign-in-link", *data_arguments(data)])}

"""


def format_forgotten_password(data: Path) -> str:
    """Return the command that prints a sign-in link for a person whose password is lost."""
    return f"""Sign in with your password. If you do not have it, this command prints a sign-in link:

  {format_command(["sign-in-link", *data_arguments(data)])}

"""


def format_demo_greeting(site: Any, data: Path, shop: str) -> str:
    """Return the greeting of the demo; `site` is the ID of its site, `shop` its address."""
    return f"""The demo shop, measured by the tracker: {shop}
Notification channels may send to this shop. Other private addresses need the setting
PHAROS_NOTIFICATION_PRIVATE_ADDRESSES=1.
Show its visitors of the last 90 days:
  {format_command(["report", *data_arguments(data), str(site)])}
"""


def data_arguments(data: Path) -> list[str]:
    """Return the `--data` option of commands for this data folder; none for the default one."""
    return [] if data == DEFAULT_DATA else ["--data", str(data)]
