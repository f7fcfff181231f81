"""`pharos variables show|set|unset|replace|protect|unprotect|rotate-key`: variables of environments, by name."""

import argparse
import sys
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

from operator_cli.api.client import Api, open_api
from operator_cli.api.default_environment import Effect
from operator_cli.api.names import Environment, resolve_environment
from operator_cli.api.problems import ApiRefused
from operator_cli.arguments import (
    add_client_arguments,
    add_environment_argument,
    add_optional_environment_argument,
    complete,
)
from operator_cli.durations import format_utc_minute
from operator_cli.environments.variable_arguments import find_replacing_file, read_values
from operator_cli.errors import AWAITS_APPROVAL, NoSuchName
from operator_cli.local.rotate_key import add_rotate_key
from operator_cli.messages import describe_not_live, print_result, qualify_commands
from operator_cli.read_text import read_variables

Variables = dict[str, Any]

_VERBS: Final = {
    "show": "show the names of an environment's variables, never their values",
    "set": "set some variables; the others stay",
    "unset": "remove some variables",
    "replace": "replace all variables by those of a dotenv file",
    "protect": "keep variables from being copied to previews",
    "unprotect": "let variables be copied to previews again",
}
_WAITS: Final = (
    "If a second person is required, the change waits for `pharos approve variables`: exit status 3."
)
_DESCRIPTIONS: Final = {
    "show": "Also shows the version with its time and author, protected names, and changes that wait for approval.",
    "set": "The change takes effect with the next deployment. KEY=VALUE is visible to other users of "
    "the machine while the command runs, "
    "and stays in the history of the shell. KEY alone asks for the value without showing it, KEY=- reads it from "
    "standard input, and - or --file FILE reads KEY=value lines (dotenv). An existing FILE in place of KEY replaces "
    f"all variables, as `pharos variables replace` does. {_WAITS}",
    "unset": f"The change takes effect with the next deployment. {_WAITS}",
    "replace": "The change takes effect with the next deployment. A variable whose name is not in "
    f"the file is removed. {_WAITS}",
    "protect": "New previews get no copy of these variables, neither previews of pull requests nor "
    "those of `pharos preview open --from`. Open previews keep their copies. The environment "
    "itself runs with the "
    "variables as before. Protection belongs to the name: it stays when the variables are replaced, and may be set "
    "before a variable of that name exists.",
    "unprotect": f"New previews get a copy of these variables. {_WAITS}",
}


def register_variables(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "variables",
        help="variables of environments",
        description="Variables of environments, which are kept sealed: names are shown, values never are.",
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True, dest="verb")
    for verb, summary in _VERBS.items():
        subcommand = verbs.add_parser(
            verb, help=summary, description=f"{summary[0].upper()}{summary[1:]}. {_DESCRIPTIONS[verb]}"
        )
        _add_arguments(subcommand, verb)
        add_client_arguments(subcommand)
        subcommand.set_defaults(run=_run)
    add_rotate_key(verbs)


def _add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    if verb == "show":
        add_optional_environment_argument(parser)
    else:
        add_environment_argument(parser)
    match verb:
        case "set":
            parser.add_argument(
                "variables",
                metavar="KEY[=VALUE]",
                nargs="*",
                help="a variable and its value; KEY asks for the value, KEY=- reads it from standard input",
            )
            file = parser.add_argument(
                "--file", metavar="FILE", help="set the variables of this dotenv file; - is standard input"
            )
            complete(file, "file")
        case "replace":
            file = parser.add_argument(
                "file", metavar="FILE", help="a dotenv file of up to 256 KiB; - reads standard input"
            )
            complete(file, "file")
        case "unset" | "protect" | "unprotect":
            parser.add_argument("names", metavar="KEY", nargs="+", help="the name of a variable")


def _run(arguments: argparse.Namespace) -> int:
    match arguments.verb:
        case "set":
            if (file := find_replacing_file(arguments)) is not None:
                return _replace(arguments, file)
            return _update(arguments, {"set": read_values(arguments)})
        case "unset":
            return _unset(arguments)
        case "replace":
            return _replace(arguments, arguments.file)
    api = open_api(arguments)
    effect = Effect.READS if arguments.verb == "show" else Effect.CHANGES
    environment = resolve_environment(api, arguments.environment, option="", effect=effect)
    if arguments.verb == "show":
        found = _get(api, environment)
        return print_result(arguments, found["variables"] if arguments.quiet else found, _show, quiet="name")
    if arguments.verb == "protect":
        return _protect(api, arguments, environment)
    return _unprotect(api, arguments, environment)


def _get(api: Api, environment: Environment) -> Variables:
    variables: Variables = api.get("environments", environment.id, "variables")
    return variables


def _update(arguments: argparse.Namespace, body: dict[str, Any]) -> int:
    api = open_api(arguments)
    environment = resolve_environment(api, arguments.environment)
    result = api.patch("environments", environment.id, "variables", body=body)
    print_result(arguments, result, lambda _: _show_updated(environment, result), quiet="change_id")
    return _status(result)


def _unset(arguments: argparse.Namespace) -> int:
    """Remove variables. A name that is not set is reported: a mistyped one would leave a secret in place."""
    api = open_api(arguments)
    environment = resolve_environment(api, arguments.environment)
    missing = _find_missing(api, environment, arguments.names)
    if missing and len(missing) == len(set(arguments.names)):
        raise NoSuchName(
            f"{environment.path} has no {_join(missing)}; `pharos variables show {environment.path}` lists its "
            "variables."
        )
    result = api.patch("environments", environment.id, "variables", body={"unset": arguments.names})
    print_result(arguments, result, lambda _: _show_updated(environment, result), quiet="change_id")
    if missing:
        print(f"Not set before in {environment.path}: {_join(missing)}.", file=sys.stderr)
    return _status(result)


def _find_missing(api: Api, environment: Environment, names: Iterable[str]) -> set[str]:
    """Return the names that no variable has; none if the token may change but not read variables."""
    try:
        variables = _get(api, environment)["variables"]
    except ApiRefused as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        return set()
    return set(names).difference(each["name"] for each in variables if each["is_set"])


def _replace(arguments: argparse.Namespace, file: str) -> int:
    text = read_variables(file)
    api = open_api(arguments)
    environment = resolve_environment(api, arguments.environment)
    result = api.put("environments", environment.id, "variables", body={"variables": text})
    print_result(arguments, result, lambda _: _show_replaced(environment, result), quiet="change_id")
    return _status(result)


def _protect(api: Api, arguments: argparse.Namespace, environment: Environment) -> int:
    names = sorted(set(arguments.names))
    result = before = _get(api, environment)
    for name in names:
        result = api.put("environments", environment.id, "variables", name, "protection")
    return print_result(arguments, result, lambda _: _show_protected(environment, names, before, result))


def _unprotect(api: Api, arguments: argparse.Namespace, environment: Environment) -> int:
    names = sorted(set(arguments.names))
    done, unknown, waiting = list[str](), list[str](), dict[str, int]()
    for name in names:
        try:
            result = api.delete("environments", environment.id, "variables", name, "protection")
        except ApiRefused as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            unknown.append(name)
            continue
        if (change := _pending_change(result)) is None:
            done.append(name)
        else:
            waiting[name] = change
    print_result(
        arguments, _get(api, environment), lambda _: _show_unprotected(environment, done, unknown, waiting)
    )
    return AWAITS_APPROVAL if waiting else 0


def _pending_change(result: Variables) -> int | None:
    """Return the number of the change if the response says that it waits for a second person."""
    number: int | None = result.get("change_id")
    return number


def _status(result: Variables) -> int:
    return 0 if _pending_change(result) is None else AWAITS_APPROVAL


def _show_updated(environment: Environment, result: Variables) -> None:
    if not _show_waiting(environment, result):
        count = sum(each["is_set"] for each in result["variables"])
        print(f"{environment.path} has {_count_variables(count)}. {describe_not_live(environment.path)}")


def _show_replaced(environment: Environment, result: Variables) -> None:
    if not _show_waiting(environment, result):
        print(
            f"All variables of {environment.path} are replaced: it has {_count_variables(result['count'])}. "
            f"{describe_not_live(environment.path)}"
        )


def _show_waiting(environment: Environment, result: Variables) -> bool:
    """Print the next step for the second person if the change waits. Return True if it waits."""
    change = _pending_change(result)
    if change is not None:
        print(_describe_waiting_change(environment.path, change))
    return change is not None


def _count_variables(count: int) -> str:
    return f"{count} variable{'' if count == 1 else 's'}"


def _describe_waiting_change(path: str, change: int) -> str:
    """Return the next step of the second person for a change of variables that waits."""
    return qualify_commands(
        f"Change {change} of {path} waits for a second person, who approves it with `pharos approve variables "
        f"{change}`."
    )


def _show(result: Variables) -> None:
    path = f"{result['project']['slug']}/{result['environment']['slug']}"
    names = [each["name"] for each in result["variables"] if each["is_set"]]
    protected = [each["name"] for each in result["variables"] if each["protected"]]
    if result["version"] is None:
        print(
            qualify_commands(
                f"{path} has no variables yet. `pharos variables set {path} KEY=VALUE` sets one."
            )
        )
    else:
        by = f" by {result['set_by']['email']}" if result["set_by"] else ""
        count = _count_variables(len(names))
        print(f"{path}: version {result['version']}, set {format_utc_minute(result['set_at'])}{by}, {count}")
        for name in names:
            print(f"  {name}{'  (protected)' if name in protected else ''}")
        if result["not_live"]:
            print(describe_not_live(path))
    if missing := sorted(set(protected).difference(names)):
        print(f"Protected, but not set: {', '.join(missing)}.")
    for change in result["pending_changes"]:
        print(
            qualify_commands(f"Change {change['id']} waits for approval; `pharos approvals` shows its names.")
        )


def _show_protected(environment: Environment, names: list[str], before: Variables, after: Variables) -> None:
    already = {each["name"] for each in before["variables"] if each["protected"]}.intersection(names)
    is_set = {each["name"] for each in after["variables"] if each["is_set"]}
    if added := set(names) - already:
        print(f"Protected in {environment.path}: {_join(added)}. Previews get no copy from now on.")
    if already:
        print(f"Protected already in {environment.path}: {_join(already)}.")
    if missing := set(names) - is_set:
        print(f"Not set yet: {_join(missing)}. Once set they are protected.")


def _show_unprotected(
    environment: Environment, done: list[str], unknown: list[str], waiting: dict[str, int]
) -> None:
    if done:
        print(f"Not protected any more in {environment.path}: {_join(done)}.")
    if unknown:
        print(f"Not protected before in {environment.path}: {_join(unknown)}.")
    for change in dict.fromkeys(waiting.values()):
        print(_describe_waiting_change(environment.path, change))


def _join(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
