"""`make load`: runs locust against the stack or any other address, then checks that every batch with a 202 is
stored once."""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from loadtests.check_stored import check_by_receipts, check_in_clickhouse
from loadtests.deployed_app import connect_application
from operator_cli.errors import CommandFailed

_ROOT = Path(__file__).parents[1]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.load",
        description="Run locust's users, and check afterwards that every batch that got a 202 is stored once.",
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(".stack"),
        metavar="DIR",
        help="folder with credentials.json (./.stack)",
    )
    parser.add_argument("--base-url", help="address, if not that of credentials.json")
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--page", action="store_true", help="locust's page on http://127.0.0.1:8089 instead")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    parser.add_argument("user", nargs="*", help="names of user classes (all)")
    return parser.parse_args()


def main() -> int:
    """Return exit status 0 if all batches are stored once. Return 1 otherwise, or if no load could be
    generated."""
    arguments = _arguments()
    path = arguments.data / "credentials.json"
    try:
        credentials: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        print(
            f"{path} does not exist. Create it with `make stack`, or name a folder with --data.",
            file=sys.stderr,
        )
        return 1
    base_url = arguments.base_url or credentials["base_url"]
    run = f"load-{int(time.time())}"
    with tempfile.TemporaryDirectory(prefix="pharos-load-") as folder:
        acknowledged = Path(folder) / "acknowledged"
        acknowledged.touch()
        try:
            connect_application(arguments.data, credentials)
            _run_locust(arguments, base_url, credentials, run, acknowledged)
        except CommandFailed as error:
            print(error, file=sys.stderr)
            return 1
        lines = [json.loads(line) for line in acknowledged.read_text().splitlines()]
    batches = {batch: events for batch, events, _ in lines}
    if not batches:
        print("No ingest batch was acknowledged: there is nothing to check.", file=sys.stderr)
        return 0 if arguments.user else 1
    print(f"Checking {len(batches):,} acknowledged batches …", file=sys.stderr)
    if (url := credentials.get("clickhouse_url")) is not None:
        verdict, _ = asyncio.run(check_in_clickhouse(url, run, batches))
    else:
        receipts = {batch: receipt for batch, _, receipt in lines}
        verdict = asyncio.run(check_by_receipts(base_url, credentials["ingest_key"], batches, receipts))
    print(json.dumps(verdict.document()) if arguments.json else verdict.text())
    return 0 if verdict.holds else 1


def _run_locust(
    arguments: argparse.Namespace, base_url: str, credentials: dict[str, Any], run: str, acknowledged: Path
) -> None:
    command = [sys.executable, "-m", "locust", "-f", "loadtests/locustfile.py", "--host", base_url]
    if not arguments.page:
        users = str(arguments.users)
        command += ["--headless", "--only-summary", "--users", users, "--spawn-rate", users]
        command += ["--run-time", f"{arguments.seconds}s", "--stop-timeout", "30"]
    subprocess.run(
        [*command, *arguments.user],
        cwd=_ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(_ROOT),
            "LOAD_INGEST_KEY": credentials["ingest_key"],
            "LOAD_HEARTBEAT": json.dumps(credentials["heartbeat"]),
            "LOAD_QUEUE": json.dumps(credentials["queue"]),
            "LOAD_SITE": json.dumps(credentials["site"]),
            "LOAD_API_TOKEN": credentials["api_token"],
            "LOAD_PROJECT": credentials["project_id"],
            "LOAD_ENVIRONMENT": credentials["environment_id"],
            "LOAD_RUN": run,
            "LOAD_ACKNOWLEDGED": str(acknowledged),
        },
        # Locust's exit status reports failed requests, but this command judges only whether batches are stored.
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main())
