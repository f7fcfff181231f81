"""Commands `pharos variables …`: the variables of environments, by name, without their values."""

import argparse
from collections.abc import Iterable
from functools import partial
from typing import Any

from operator_cli.arguments import add_approval_arguments, add_environment_argument, read_approval_arguments
from operator_cli.control_client import WHICH_INSTALLATION, add_data_and_json_arguments, request_action
from operator_cli.local.rotate_key import add_rotate_key
from operator_cli.messages import describe_not_live, print_result, program_name, qualify_commands
from operator_cli.read_text import read_variables


def register_variables(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "variables",
        help="show, set and protect the variables of environments, and rotate the key that seals them",
        description="Variables of environments, which are kept sealed: names are shown, values never are. "
        f"{WHICH_INSTALLATION} The first case also needs PHAROS_VARIABLES_KEY.",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    show = actions.add_parser(
        "show",
        help="show the names, the version, when it was set and by whom",
        description="Show the names of an environment's variables, their version, when it was set and by whom; and "
        "which are protected.",
    )
    add_environment_argument(show)
    change = actions.add_parser(
        "set",
        help="replace all variables of an environment",
        description="Replace all variables of an environment by those of a dotenv file (KEY=value lines), for its next "
        "release: a variable whose name is not in the file is removed. If the environment requires a second person, "
        "the change waits for `pharos approve variables`.",
    )
    add_environment_argument(change)
    change.add_argument("file", metavar="FILE", help="a dotenv file of up to 256 KiB; - reads standard input")
    change.add_argument(
        "--by",
        metavar="EMAIL",
        help="the person who asks for the change; needed where a second person has to approve it",
    )
    protection = _add_protection(actions)
    add_rotate_key(actions)
    named = {"show": show, "set": change, **protection}
    for name, subcommand in named.items():
        add_data_and_json_arguments(subcommand)
        subcommand.set_defaults(run=_run, subcommand=name)


def _add_protection(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> dict[str, argparse.ArgumentParser]:
    protect = actions.add_parser(
        "protect",
        help="keep these variables from being copied to previews",
        description="Protect variables of an environment: previews that are opened from now on get no copy of them, "
        "neither those of pull requests nor those of `pharos preview open --from`. Open previews keep their copies. "
        "The environment itself runs with the variables as before. Protection belongs to the name: it stays when the "
        "variables are replaced, and may be set before a variable of that name exists.",
    )
    unprotect = actions.add_parser(
        "unprotect",
        help="copy these variables to previews again",
        description="Remove the protection from variables of an environment: previews that are opened from now on get "
        "a copy of them.",
    )
    for subcommand in (protect, unprotect):
        add_environment_argument(subcommand)
        subcommand.add_argument(
            "names", metavar="NAME", nargs="+", help="the name of a variable, without a value"
        )
    add_approval_arguments(unprotect)
    return {"protect": protect, "unprotect": unprotect}


def _run(arguments: argparse.Namespace) -> int:
    match arguments.subcommand:
        case "show":
            params = {"environment_id": arguments.environment}
            return print_result(arguments, request_action(arguments, "variables/show", params), _show)
        case "set":
            text = read_variables(arguments.file)
            params = {"environment_id": arguments.environment, "text": text, "by": arguments.by}
            return print_result(arguments, request_action(arguments, "variables/set", params), _show_set)
    params = {"environment_id": arguments.environment, "names": arguments.names}
    if arguments.subcommand == "unprotect":
        params |= read_approval_arguments(arguments)
    result = request_action(arguments, f"variables/{arguments.subcommand}", params)
    show = _show_protected if arguments.subcommand == "protect" else _show_unprotected
    return print_result(arguments, result, partial(show, set(arguments.names)))


def _show(result: dict[str, Any]) -> None:
    environment_path = f"{result['project']}/{result['environment']}"
    if result["version"] is None:
        print(
            qualify_commands(
                f"{environment_path} has no variables yet. "
                f"`pharos variables set {environment_path} FILE` sets them."
            )
        )
    else:
        by = f" by {result['set_by']}" if result["set_by"] else ""
        count = len(result["names"])
        print(
            f"{environment_path}: version {result['version']}, set {result['set_at']}{by}, {count} variables"
        )
        for name in result["names"]:
            print(f"  {name}{'  (protected)' if name in result['protected'] else ''}")
        if result["not_live"]:
            print(describe_not_live(environment_path))
    if missing := set(result["protected"]).difference(result["names"]):
        print(f"Protected, but not set: {_join_sorted(missing)}.")
    if result["pending_change_id"] is not None:
        print(
            qualify_commands(
                f"Change {result['pending_change_id']} waits for approval; `pharos approvals` shows it."
            )
        )


def _show_set(result: dict[str, Any]) -> None:
    environment_path = f"{result['project']}/{result['environment']}"
    if result["change_id"] is None:
        print(f"{environment_path} has {result['count']} variables. {describe_not_live(environment_path)}")
    else:
        print(f"Change {result['change_id']} of {environment_path} waits for a second person:")
        print(f"  {program_name()} approve variables {result['change_id']} --by EMAIL")


def _show_protected(names: set[str], result: dict[str, Any]) -> None:
    environment_path = f"{result['project']}/{result['environment']}"
    if result["added"]:
        print(
            f"Protected in {environment_path}: {_join_sorted(result['added'])}. Previews get no copy from now on."
        )
    if already := names.difference(result["added"]):
        print(f"Protected already in {environment_path}: {_join_sorted(already)}.")
    if result["missing"]:
        print(f"Not set yet: {_join_sorted(result['missing'])}. Once set they are protected.")


def _show_unprotected(names: set[str], result: dict[str, Any]) -> None:
    environment_path = f"{result['project']}/{result['environment']}"
    if result["removed"]:
        print(f"Not protected any more in {environment_path}: {_join_sorted(result['removed'])}.")
    if others := names.difference(result["removed"]):
        print(f"Not protected before in {environment_path}: {_join_sorted(others)}.")


def _join_sorted(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
