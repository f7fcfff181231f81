"""`pharos key list|create|revoke`: the ingest keys of environments."""

import argparse
from typing import Any

from operator_cli.api.client import Api
from operator_cli.api.names import Environment
from operator_cli.arguments import add_verbs
from operator_cli.ingest.environment_keys import KeyKind, add_key_arguments, describe_created, run_key_verb
from pipeline_contracts.sentry_dsn import make_sentry_dsn

_VERBS = {
    "list": "list the keys of all environments, or of one, with their states",
    "create": "create a key; its secret is shown once",
    "revoke": "revoke a key at every edge, within 5 s",
}
_DESCRIPTIONS = {"create": "A new key works at once; the other keys keep working."}


def register_key(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "key",
        help="ingest keys",
        description="Ingest keys: what applications send telemetry of an environment with.",
    )
    add_verbs(parser, _VERBS, _run, add_key_arguments, _DESCRIPTIONS)


def _run(arguments: argparse.Namespace) -> int:
    return run_key_verb(arguments, _INGEST_KEY)


def _show_created(api: Api, environment: Environment, key: dict[str, Any]) -> None:
    print(f"{describe_created(environment, 'Key', key)}\n{key['key']}")
    print(f"\nThe DSN of this key, for Sentry's SDKs:\n{make_sentry_dsn(api.target.base_url, key['key'])}")


_INGEST_KEY = KeyKind("key", "ingest key", "ingest-keys", "what is sent with it", _show_created)
