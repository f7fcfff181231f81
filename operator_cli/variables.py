"""`pharos variables show|set|protect|unprotect|rotate-key`: what environments run with, by name; never a value."""

import argparse
from collections.abc import Iterable
from functools import partial
from typing import Any

from operator_cli.ask import WHICH, add_ask_arguments, ask
from operator_cli.environment import add_agreed_arguments, add_place_argument, read_agreed
from operator_cli.failure import CommandFailed
from operator_cli.read_text import read_variables
from operator_cli.tell import tell
from operator_cli.typed_commands import program, typed_commands

# Rounds in a row in which nothing could be sealed because others wrote the same meanwhile.
_MOST_IDLE = 5


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "variables",
        help="show, set and protect the variables of environments, and rotate the key that seals them",
        description="Variables of environments, which are kept sealed: names are shown, values never are. "
        f"{WHICH} PHAROS_VARIABLES_KEY is needed as well then.",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    show = actions.add_parser(
        "show",
        help="show the names, the version, when it was set and by whom",
        description="Show the names of an environment's variables, their version, when it was set and by whom; and "
        "which are protected.",
    )
    add_place_argument(show)
    change = actions.add_parser(
        "set",
        help="replace all variables of an environment",
        description="Replace all variables of an environment by those of a dotenv file (KEY=value lines), for its next "
        "release: a name that the file has not is there no more. Where the environment wants a second person, the "
        "change waits for `pharos approve variables`.",
    )
    add_place_argument(change)
    change.add_argument("file", metavar="FILE", help="a dotenv file of up to 256 KiB; - reads standard input")
    change.add_argument(
        "--by", metavar="EMAIL", help="who asks for it; needed where a second person has to agree"
    )
    protecting = _add_protecting(actions)
    rotate = actions.add_parser(
        "rotate-key",
        help="seal all variables again under the newest key",
        description="Seal the variables of all environments, those that wait for approval too, the secrets of "
        "webhooks and the ping keys of heartbeats again under the first secret of PHAROS_VARIABLES_KEY. To rotate: "
        "(1) put a new secret of 32 characters or more before the old one, with a comma between them "
        "(PHAROS_VARIABLES_KEY=new,old; with `pharos up` the same in the file DIR/variables.key, unless "
        "PHAROS_VARIABLES_KEY is set there), (2) restart `pharos up`, or every `pharos control`, (3) run this command "
        "with the same setting, (4) take the old secret away and restart again. It "
        "can be stopped and run again at any time.",
    )
    named = {"show": show, "set": change, **protecting, "rotate-key": rotate}
    for name, action in named.items():
        add_ask_arguments(action)
        action.set_defaults(run=_run, action=name)


def _add_protecting(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> dict[str, argparse.ArgumentParser]:
    protect = actions.add_parser(
        "protect",
        help="let previews get no copy of these variables",
        description="Protect variables of an environment: previews that are opened from now on get no copy of them, "
        "neither those of pull requests nor those of `pharos preview open --from`. Those that are open keep what they "
        "have. The environment itself runs with them as before. The mark belongs to the name: it stays when the "
        "variables are replaced, and may be set before there is such a variable.",
    )
    unprotect = actions.add_parser(
        "unprotect",
        help="let previews get a copy of these variables again",
        description="Take the protection from variables of an environment: previews that are opened from now on get a "
        "copy of them.",
    )
    for action in (protect, unprotect):
        add_place_argument(action)
        action.add_argument(
            "names", metavar="NAME", nargs="+", help="the name of a variable, without a value"
        )
    add_agreed_arguments(unprotect)
    return {"protect": protect, "unprotect": unprotect}


def _run(arguments: argparse.Namespace) -> int:
    match arguments.action:
        case "show":
            wanted = {"environment_id": arguments.environment}
            return tell(arguments, ask(arguments, "variables/show", wanted), _show)
        case "set":
            text = read_variables(arguments.file)
            wanted = {"environment_id": arguments.environment, "text": text, "by": arguments.by}
            return tell(arguments, ask(arguments, "variables/set", wanted), _show_set)
        case "protect" | "unprotect":
            wanted = {"environment_id": arguments.environment, "names": arguments.names}
            if arguments.action == "unprotect":
                wanted |= read_agreed(arguments)
            told = ask(arguments, f"variables/{arguments.action}", wanted)
            show = _show_protected if arguments.action == "protect" else _show_unprotected
            return tell(arguments, told, partial(show, set(arguments.names)))
    return tell(arguments, _rotate(arguments), _show_rotated)


def _show(told: dict[str, Any]) -> None:
    called = f"{told['project']}/{told['environment']}"
    if told["version"] is None:
        print(
            typed_commands(f"{called} has no variables yet. `pharos variables set {called} FILE` sets them.")
        )
    else:
        by = f" by {told['set_by']}" if told["set_by"] else ""
        print(
            f"{called}: version {told['version']}, set {told['set_at']}{by}, {len(told['names'])} variables"
        )
        for name in told["names"]:
            print(f"  {name}{'  (protected)' if name in told['protected'] else ''}")
        if told["not_live"]:
            print(not_live(called))
    if missing := set(told["protected"]).difference(told["names"]):
        print(f"Protected, but not set: {_listed(missing)}.")
    if told["pending_change_id"] is not None:
        print(
            typed_commands(
                f"Change {told['pending_change_id']} waits for approval; `pharos approvals` shows it."
            )
        )


def _show_set(told: dict[str, Any]) -> None:
    called = f"{told['project']}/{told['environment']}"
    if told["change_id"] is None:
        print(f"{called} has {told['count']} variables. {not_live(called)}")
    else:
        print(f"Change {told['change_id']} of {called} waits for a second person:")
        print(f"  {program()} approve variables {told['change_id']} --by EMAIL")


def not_live(environment: str) -> str:
    """What is said of variables that were changed: what runs keeps those that it was started with."""
    return typed_commands(f"Not live until the next deploy: `pharos deploy {environment}`.")


def _show_protected(wanted: set[str], told: dict[str, Any]) -> None:
    called = f"{told['project']}/{told['environment']}"
    if told["added"]:
        print(f"Protected in {called}: {_listed(told['added'])}. Previews get no copy from now on.")
    if already := wanted.difference(told["added"]):
        print(f"Protected already in {called}: {_listed(already)}.")
    if told["missing"]:
        print(f"Not set yet: {_listed(told['missing'])}. Once set they are protected.")


def _show_unprotected(wanted: set[str], told: dict[str, Any]) -> None:
    called = f"{told['project']}/{told['environment']}"
    if told["removed"]:
        print(f"Not protected any more in {called}: {_listed(told['removed'])}.")
    if others := wanted.difference(told["removed"]):
        print(f"Not protected before in {called}: {_listed(others)}.")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _show_rotated(told: dict[str, Any]) -> None:
    print(
        f"Sealed again under key {told['key_id']}: {told['resealed']:,}. Nothing is left under another key."
    )


def _rotate(arguments: argparse.Namespace) -> dict[str, Any]:
    """Round after round until nothing is left; each is a transaction of its own."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = (TextColumn("sealed again"), BarColumn(), MofNCompleteColumn())
    hidden = arguments.json or not console.is_terminal
    done = idle = 0
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task("sealing", total=None)
        while True:
            told = ask(arguments, "variables/rotate-key")
            done += told["resealed"]
            progress.update(task, completed=done, total=done + told["left"])
            if not told["left"]:
                return {"resealed": done, "key_id": told["key_id"]}
            idle = 0 if told["resealed"] else idle + 1
            if idle == _MOST_IDLE:
                raise CommandFailed(
                    f"{told['left']} were changed by others meanwhile: run the command again."
                )
