"""`pharos channels list|show|create|set|test|remove`: the destinations of notifications."""

import argparse
from typing import Any, Final

from control_domain.notifications.channel_types import CHANNEL_TYPES
from operator_cli.api.client import Api, open_api
from operator_cli.api.names import Row
from operator_cli.arguments import ON_OFF, add_client_arguments, add_verbs, add_yes_argument, confirm
from operator_cli.errors import UsageError
from operator_cli.messages import print_result, qualify_commands
from operator_cli.notifications.channel_fields import (
    add_field_arguments,
    ask_for_secret,
    list_all_fields,
    read_given_secrets,
    read_new_secrets,
    read_settings,
)
from operator_cli.notifications.find import CHANNELS, add_channel_argument, find_channel
from operator_cli.notifications.option_names import names_options
from operator_cli.notifications.quiet_hours import add_quiet_hours_options, read_quiet_hours

_VERBS: Final = {
    "list": "list channels with their types and states",
    "show": "show a channel with its settings, without its secrets",
    "create": "create a channel; the command asks for its secrets",
    "set": "change the settings, secrets or quiet hours of a channel",
    "test": "send a test incident, and follow it until it is delivered",
    "remove": "remove a channel, also from all rules, and cancel its unsent notifications",
}
_DESCRIPTIONS: Final = {
    "create": "The command asks for a secret, or reads it from the file of its option. Secrets are "
    "never arguments, which other users of the machine could read. `pharos channels create "
    "TYPE --help` lists the settings of a type.",
    "set": "Which options apply depends on the type of the channel. Secrets that are not given stay. "
    "If an address leads to another server, give all secrets except signing_secret again.",
    "test": "The test is processed like every incident: rule, group, delivery. Exits with 1 if it was not delivered.",
}


def register_channels(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "channels",
        help="where notifications are sent",
        description="Channels of the account: e-mail addresses, webhooks, chats and on-call services. Rules send to "
        "them: `pharos rules create`. `pharos channels` alone lists them.",
    )
    add_verbs(parser, _VERBS, _run, _add_arguments, _DESCRIPTIONS, default="list")


def _add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    match verb:
        case "list":
            return
        case "create":
            _add_types(parser)
            return
    add_channel_argument(parser)
    match verb:
        case "set":
            parser.add_argument("--name", metavar="NAME", help="the new name")
            parser.add_argument("--enabled", choices=ON_OFF, help="whether it sends")
            add_quiet_hours_options(parser)
            parser.add_argument(
                "--no-quiet-hours", action="store_true", help="send at any time", dest="clears_quiet_hours"
            )
            add_field_arguments(parser, list_all_fields())
            parser.add_argument(
                "--ask",
                action="append",
                default=[],
                metavar="SECRET",
                choices=sorted({field.name for field in list_all_fields() if field.is_secret}),
                help="ask for this secret: url, bot_token …; may be repeated",
            )
        case "test":
            parser.add_argument(
                "--no-wait", action="store_true", help="do not wait for the delivery", dest="leaves_it"
            )
        case "remove":
            add_yes_argument(parser)


def _add_types(parser: argparse.ArgumentParser) -> None:
    types = parser.add_subparsers(title="types", metavar="TYPE", required=True, dest="type")
    for name, channel_type in CHANNEL_TYPES.items():
        # Without defaults, which would replace the flags before the type.
        one = types.add_parser(
            name,
            help=channel_type.description[:1].lower() + channel_type.description[1:],
            description=f"{channel_type.title}: {channel_type.description}.",
            argument_default=argparse.SUPPRESS,
        )
        one.add_argument("name", metavar="NAME", help="the name of the channel")
        add_field_arguments(one, channel_type.list_fields())
        add_quiet_hours_options(one)
        add_client_arguments(one)


@names_options
def _run(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    match arguments.verb:
        case "list":
            return print_result(
                arguments, api.get_all(CHANNELS), lambda channels: _show_list(arguments, channels)
            )
        case "create":
            return _create(arguments, api)
        case "set":
            return _set(arguments, api)
    channel = find_channel(api, arguments.channel)
    match arguments.verb:
        case "show":
            return print_result(arguments, channel, _show_one)
        case "test":
            # Imported here: other verbs do not need it.
            from operator_cli.notifications.follow_test import follow_test

            return follow_test(arguments, api, channel)
    return _remove(arguments, api, channel)


def _create(arguments: argparse.Namespace, api: Api) -> int:
    body = {
        "name": arguments.name,
        "type": arguments.type,
        "settings": read_settings(arguments),
        "secrets": read_new_secrets(arguments, arguments.type),
    }
    if (hours := read_quiet_hours(arguments)) is not None:
        body["quiet_hours"] = hours
    return print_result(arguments, api.post(CHANNELS, body=body), _show_created, quiet="signing_secret")


def _set(arguments: argparse.Namespace, api: Api) -> int:
    changes: dict[str, Any] = {
        "name": arguments.name,
        "enabled": None if arguments.enabled is None else ON_OFF[arguments.enabled],
        "settings": read_settings(arguments) or None,
        "quiet_hours": read_quiet_hours(arguments),
    }
    changes = {name: value for name, value in changes.items() if value is not None}
    if arguments.clears_quiet_hours:
        if "quiet_hours" in changes:
            raise UsageError("--quiet-hours and --no-quiet-hours do not go together.")
        changes["quiet_hours"] = None
    secrets = read_given_secrets(arguments)
    if not (changes or secrets or arguments.ask):
        raise UsageError("Name a setting to change: `pharos channels set --help` lists them.")
    channel = find_channel(api, arguments.channel)
    secrets |= {name: ask_for_secret(name, str(channel["type"])) for name in arguments.ask}
    if secrets:
        changes["secrets"] = secrets
    return print_result(arguments, api.patch(CHANNELS, channel["id"], body=changes), _show_one)


def _remove(arguments: argparse.Namespace, api: Api, channel: Row) -> int:
    consequence = f"remove channel {channel['name']} from all rules, and cancel its unsent notifications"
    if not confirm(arguments, consequence):
        return 1
    return print_result(arguments, api.delete(CHANNELS, channel["id"]), _show_removed)


def _show_removed(channel: dict[str, Any]) -> None:
    rules = f", and from {channel['rules']} rules" if channel["rules"] else ""
    print(f"Channel {channel['name']} is removed{rules}.")


def _show_list(arguments: argparse.Namespace, channels: list[dict[str, Any]]) -> None:
    # Imported here and below: rich is slow to import, and --json needs none of it.
    from operator_cli.notifications.channel_tables import show_channels

    show_channels(arguments, channels)


def _show_one(channel: dict[str, Any]) -> None:
    from operator_cli.notifications.channel_tables import show_channel

    show_channel(channel)


def _show_created(channel: dict[str, Any]) -> None:
    print(f"Channel {channel['name']} ({channel['type']}) is created.")
    secret = channel.get("signing_secret")
    if secret is not None:
        print(f"Its signing secret, shown this once, verifies the messages:\n{secret}")
    print(
        qualify_commands(
            f"`pharos channels test {_quote(channel['name'])}` sends a test;\n"
            f"`pharos rules create NAME --channel {_quote(channel['name'])}` sends incidents to it."
        )
    )


def _quote(name: str) -> str:
    # Imported here: other verbs do not need it.
    import shlex

    return shlex.quote(name)
