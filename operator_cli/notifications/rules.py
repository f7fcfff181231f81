"""`pharos rules list|show|create|set|remove|default|kinds`: the recipients of incidents."""

import argparse
from typing import Any, Final

from operator_cli.api.client import Api, open_api
from operator_cli.api.default_environment import Effect
from operator_cli.api.names import resolve_environment, resolve_project
from operator_cli.api.problems import ApiRefused
from operator_cli.arguments import (
    ON_OFF,
    add_project_argument,
    add_verbs,
    add_yes_argument,
    complete,
    confirm,
)
from operator_cli.errors import UsageError
from operator_cli.messages import print_result
from operator_cli.monitors.monitor_commands import add_environment_option
from operator_cli.notifications.find import DEFAULT_RULE, RULES, add_rule_argument, find_recipients, find_rule
from operator_cli.notifications.nobody import warn_if_nobody_is_notified
from operator_cli.notifications.option_names import names_options
from pipeline_contracts.alert_kinds import SEVERITIES

_VERBS: Final = {
    "list": "list rules with their conditions and recipients",
    "show": "show a rule",
    "create": "create a rule that notifies channels and people of incidents",
    "set": "change the conditions or recipients of a rule",
    "remove": "remove a rule",
    "default": "show the default rule, for projects without their own rule",
    "kinds": "list the kinds of alerts that rules and silences may name",
}
_DESCRIPTIONS: Final = {
    "list": "An account without rules has a default rule: `pharos rules default` shows it.",
    "create": "Without --project it is for all projects and the platform itself. Without --kind it is for the kinds "
    "that notify by default; `pharos rules kinds` lists all.",
    "set": "Given lists replace those of the rule.",
}


def register_rules(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "rules",
        help="notification rules: the recipients of incidents",
        description="Notification rules: which incidents are sent to which channels and people. `pharos rules` alone "
        "lists them.",
    )
    add_verbs(parser, _VERBS, _run, _add_arguments, _DESCRIPTIONS, default="list")


def _add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    match verb:
        case "default" | "kinds":
            return
        case "list":
            add_project_argument(parser, "only rules of this project")
            return
        case "create":
            parser.add_argument("name", metavar="NAME", help="the name, unique in the account")
        case _:
            add_rule_argument(parser)
    match verb:
        case "create":
            add_project_argument(parser, "only incidents of this project: its name or ID")
            add_environment_option(parser, is_filter=True)
            _add_settings(parser)
        case "set":
            parser.add_argument("--name", metavar="NAME", help="the new name")
            _add_settings(parser)
            parser.add_argument(
                "--default-kinds", action="store_true", help="the kinds that notify by default"
            )
            parser.add_argument("--enabled", choices=ON_OFF, help="whether the rule is enabled")
        case "remove":
            add_yes_argument(parser)


def _add_settings(parser: argparse.ArgumentParser) -> None:
    for flag, kind, help_ in (
        ("channel", "channel", "send to this channel: its name or ID; may be repeated"),
        ("person", "person", "send to this person by e-mail: address, name or ID; may be repeated"),
    ):
        option = parser.add_argument(
            f"--{flag}", action="append", metavar=flag.upper(), dest=f"{flag}s", help=help_
        )
        complete(option, kind)
    parser.add_argument(
        "--kind",
        action="append",
        dest="kinds",
        metavar="KIND",
        help="only this kind (heartbeat.down), or all of a family (heartbeat); may be repeated",
    )
    parser.add_argument("--min-severity", choices=SEVERITIES, help="leave out less severe incidents (info)")
    parser.add_argument(
        "--reminders", choices=ON_OFF, help="repeat open incidents after an hour, then daily (on)"
    )


@names_options
def _run(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    match arguments.verb:
        case "list":
            return _list(arguments, api)
        case "create":
            return _create(arguments, api)
        case "set":
            return _set(arguments, api)
        case "default":
            default = api.get(DEFAULT_RULE)
            return print_result(arguments, default, _show_default, quiet="applies")
        case "kinds":
            kinds = api.get("alert-kinds")
            return print_result(arguments, kinds, lambda rows: _show_kinds(arguments, rows), quiet="name")
    rule = find_rule(api, arguments.rule)
    if arguments.verb == "show":
        return print_result(arguments, rule, _show_one)
    if not confirm(
        arguments, f"remove rule {rule['name']}; its incidents notify others only if another rule does"
    ):
        return 1
    removed = api.delete(RULES, rule["id"])
    return print_result(arguments, removed, lambda row: print(f"Rule {row['name']} is removed."))


def _list(arguments: argparse.Namespace, api: Api) -> int:
    project = None if arguments.project_id is None else resolve_project(api, arguments.project_id).id
    rows = api.get_all(RULES, query={"project": project})
    return print_result(arguments, rows, lambda rows: _show_list(arguments, api, rows))


def _create(arguments: argparse.Namespace, api: Api) -> int:
    if not (arguments.channels or arguments.persons):
        raise UsageError("Name the recipients: --channel CHANNEL or --person PERSON.")
    body: dict[str, Any] = {"name": arguments.name, **_read_settings(arguments, api)}
    if arguments.environment is not None:
        environment = resolve_environment(
            api, arguments.environment, arguments.project_id, effect=Effect.ADDS
        )
        body |= {"project": environment.project.id, "environment": environment.id}
    elif arguments.project_id is not None:
        body["project"] = resolve_project(api, arguments.project_id).id
    return print_result(
        arguments, api.post(RULES, body=body), lambda rule: _show_saved(api, rule, is_new=True)
    )


def _set(arguments: argparse.Namespace, api: Api) -> int:
    if arguments.default_kinds and arguments.kinds:
        raise UsageError("--kind and --default-kinds do not go together.")
    given = (arguments.name, arguments.enabled, arguments.kinds, arguments.min_severity, arguments.reminders)
    recipients = arguments.channels or arguments.persons
    if all(value is None for value in given) and not (recipients or arguments.default_kinds):
        raise UsageError("Name a setting to change: `pharos rules set --help` lists them.")
    rule = find_rule(api, arguments.rule)
    changes = _read_settings(arguments, api)
    if arguments.name is not None:
        changes["name"] = arguments.name
    if arguments.enabled is not None:
        changes["enabled"] = ON_OFF[arguments.enabled]
    if arguments.default_kinds:
        changes["kinds"] = None
    changed = api.patch(RULES, rule["id"], body=changes)
    return print_result(arguments, changed, lambda rule: _show_saved(api, rule, is_new=False))


def _read_settings(arguments: argparse.Namespace, api: Api) -> dict[str, Any]:
    """Return the given settings in the form of the API."""
    settings: dict[str, Any] = {}
    if arguments.channels or arguments.persons:
        settings["recipients"] = find_recipients(api, arguments.channels or (), arguments.persons or ())
    if arguments.kinds:
        settings["kinds"] = arguments.kinds
    if arguments.min_severity is not None:
        settings["min_severity"] = arguments.min_severity
    if arguments.reminders is not None:
        settings["reminders"] = ON_OFF[arguments.reminders]
    return settings


def _show_list(arguments: argparse.Namespace, api: Api, rules: list[dict[str, Any]]) -> None:
    # Imported here and below: rich is slow to import, and --json needs none of it.
    from operator_cli.notifications.rule_tables import show_rules

    show_rules(arguments, rules)
    if not rules:
        warn_if_nobody_is_notified(api)


def _show_one(rule: dict[str, Any]) -> None:
    from operator_cli.notifications.rule_tables import show_rule

    show_rule(rule)


def _show_saved(api: Api, rule: dict[str, Any], *, is_new: bool) -> None:
    """Print the rule and warnings: that people get no e-mail, or that the default rule no longer applies."""
    _show_one(rule)
    try:
        sends_email = api.get(DEFAULT_RULE)["sends_email"]
        others = (
            [row for row in api.get_all(RULES) if row["id"] != rule["id"]] if is_new and sends_email else []
        )
    except ApiRefused:
        # The rule is saved, so errors of these reads must not fail the command.
        return
    if not sends_email:
        if any(recipient["person"] is not None for recipient in rule["recipients"]):
            print("The installation sends no e-mail (PHAROS_SMTP_URL): people in the rule get nothing.")
    elif is_new and not any(_has_scope_of(other, rule) for other in others):
        project = rule["project"]
        where = "" if project is None else f" to project {project['slug']}"
        print(f"The default rule, e-mail to the owners, no longer applies{where}.")


def _has_scope_of(other: dict[str, Any], rule: dict[str, Any]) -> bool:
    """Return True if this other rule already kept the default rule from applying."""
    if other["project"] is None:
        return True
    return rule["project"] is not None and other["project"]["id"] == rule["project"]["id"]


def _show_default(rule: dict[str, Any]) -> None:
    from operator_cli.notifications.rule_tables import show_default_rule

    show_default_rule(rule)


def _show_kinds(arguments: argparse.Namespace, kinds: list[dict[str, Any]]) -> None:
    from operator_cli.notifications.rule_tables import show_kinds

    show_kinds(arguments, kinds)
