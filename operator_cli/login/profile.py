"""Commands `pharos profile list|use|remove`."""

import argparse
import json
from typing import Any

from operator_cli.api.profiles import profiles_file, read_profiles, write_profiles
from operator_cli.arguments import complete
from operator_cli.messages import qualify_commands

_SUMMARIES = {
    "list": "show the stored profiles; * marks the current one",
    "use": "make a profile the current one",
    "remove": "remove a profile and its token from this machine, as `pharos logout`",
}


def register_profile(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "profile",
        help="stored installations",
        description="Profiles: the installations that `pharos login` has stored. Commands use the current one unless "
        "--profile, --data or variables of the environment name another, or `pharos up` has run in this folder; "
        "`pharos whoami` shows the result.",
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True, dest="verb")
    for verb, summary in _SUMMARIES.items():
        subcommand = verbs.add_parser(verb, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        if verb == "list":
            subcommand.add_argument("--json", action="store_true", help="print JSON, without the tokens")
        else:
            complete(subcommand.add_argument("name", metavar="NAME", help="as `list` shows it"), "profile")
        subcommand.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    profiles = read_profiles()
    match arguments.verb:
        case "list":
            rows = [
                {"name": p.name, "url": p.url, "account": p.account, "current": p.name == profiles.current}
                for _, p in sorted(profiles.by_name.items())
            ]
            _show_list(rows, as_json=arguments.json)
        case "use":
            write_profiles(profiles.with_current(arguments.name))
            print(f"The profile {arguments.name} is now the current one.")
        case "remove":
            write_profiles(profiles.without(profiles.find(arguments.name).name))
            print(f"The profile {arguments.name} and its token are removed from this machine.")
    return 0


def _show_list(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(rows))
        return
    if not rows:
        print(qualify_commands(f"No profiles in {profiles_file()} yet. `pharos login URL` makes one."))
        return
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        mark = "*" if row["current"] else " "
        account = "" if row["account"] is None else f"  ({row['account']})"
        print(f"{mark} {row['name']:<{width}}  {row['url'].removesuffix('/api')}{account}")
