"""`pharos ping-key list|create|revoke`: the ping keys of environments."""

import argparse
from typing import Any

from operator_cli.api.client import Api
from operator_cli.api.names import Environment
from operator_cli.arguments import add_verbs
from operator_cli.ingest.environment_keys import KeyKind, add_key_arguments, describe_created, run_key_verb
from operator_cli.monitors.usage import describe_named_ping_urls

_VERBS = {
    "list": "list the ping keys of all environments, or of one, with their states",
    "create": "create a ping key; its secret is shown once",
    "revoke": "revoke a ping key at every edge, within 5 s",
}
_DESCRIPTIONS = {
    "create": "One key pings all heartbeats of the environment, each by its name; with ?create=1 the first ping of a "
    "name creates its heartbeat. A new key works at once; the other keys keep working."
}


def register_ping_key(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "ping-key",
        help="ping keys of environments",
        description="Ping keys of environments: what jobs ping heartbeats by name with. "
        "`pharos heartbeat new-ping-key` creates the ping URL of one heartbeat.",
    )
    add_verbs(parser, _VERBS, _run, add_key_arguments, _DESCRIPTIONS)


def _run(arguments: argparse.Namespace) -> int:
    return run_key_verb(arguments, _PING_KEY)


def _show_created(api: Api, environment: Environment, key: dict[str, Any]) -> None:
    host = api.target.base_url.removesuffix("/api")
    print(f"{describe_created(environment, 'Ping key', key)}\n{key['key']}")
    print(describe_named_ping_urls(host + key["url"]))


_PING_KEY = KeyKind("ping-key", "ping key", "ping-keys", "the pings of all jobs that use it", _show_created)
