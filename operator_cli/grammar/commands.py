"""The commands of `pharos`, each with its module.

A module is imported only when its command runs: importing the whole platform takes over a second, and most commands
need none of it. Its function `register_NAME(commands)` adds the parser of the command.
"""

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from operator_cli.errors import USAGE
from operator_cli.grammar.synonyms import COMMAND_SYNONYMS, find_synonyms
from operator_cli.suggestions import find_similar, join_suggestions, suggest


class Command(NamedTuple):
    """The location of a command, and its line in the help of `pharos`."""

    module: str
    """The module below `operator_cli` with the `register_…` function."""
    summary: str
    usage_status: int = USAGE
    """Exit status for wrong arguments and settings, which differs if a command uses 2 for a result."""
    is_noun: bool = False
    """True if its name is a noun, which has a singular and a plural, and the command changes nothing without a verb."""


COMMANDS_BY_GROUP: Final[dict[str, dict[str, Command]]] = {
    "every day": {
        "init": Command("init.command", "write pharos.yaml for the application in a folder"),
        "deploy": Command("deployments.deploy", "deploy to an environment, and follow it until it is live"),
        "rollback": Command("deployments.deploy", "make the release before the live one live again"),
        "promote": Command("deployments.deploy", "deploy the release of one environment to a later one"),
        "ps": Command("environments.processes", "show what runs"),
        "logs": Command(
            "telemetry.logs", "show the log of a deployment, of processes, or log records", is_noun=True
        ),
        "open": Command("environments.open", "open an environment in a browser"),
        "report": Command("sites.report", "show the visits of a site", is_noun=True),
        "login": Command("login.login", "log in to an installation, and store its URL and token"),
    },
    "projects and deployments": {
        "project": Command("projects.project", "projects and the people who may deploy them", is_noun=True),
        "environment": Command(
            "environments.environment", "environments of a project, in which it runs", is_noun=True
        ),
        "variables": Command("environments.variables", "variables of environments", is_noun=True),
        "deployments": Command("deployments.deployments", "show the newest deployments", is_noun=True),
        "cancel": Command("deployments.deployments", "cancel a deployment"),
        "approvals": Command("deployments.approvals", "list pending approvals", is_noun=True),
        "approve": Command("deployments.approvals", "approve a deployment or a change of variables"),
        "reject": Command("deployments.approvals", "reject a deployment or a change of variables"),
        "lock": Command("environments.environment", "block deployments to an environment"),
        "unlock": Command("environments.environment", "allow deployments to an environment again"),
        "preview": Command("environments.preview", "environments of branches", is_noun=True),
        "workflow": Command("projects.workflow", "how a project is built, released and run", is_noun=True),
        "config": Command(
            "configuration.config",
            "plan and apply a project's configuration document",
            os.EX_USAGE,
            is_noun=True,
        ),
        "repository": Command(
            "repositories.repository", "Git repositories that projects are deployed from", is_noun=True
        ),
        "webhooks": Command(
            "repositories.webhooks", "deliveries of Git hosts, and waiting pushes", is_noun=True
        ),
    },
    "monitoring": {
        "run": Command("monitors.run", "run a scheduled job, and report it to its heartbeat"),
        "heartbeat": Command("monitors.heartbeat", "heartbeats of scheduled jobs", is_noun=True),
        "heartbeats": Command("monitors.heartbeat", "show all heartbeats at a glance", is_noun=True),
        "ping-key": Command("monitors.ping_keys", "ping keys of environments", is_noun=True),
        "queue": Command("monitors.queue", "queues of jobs", is_noun=True),
        "queues": Command("monitors.queue", "show all queues at a glance", is_noun=True),
        "tail": Command("telemetry.tail", "show the newest events"),
        "traces": Command("telemetry.traces", "traces, with their spans as a tree", is_noun=True),
        "issues": Command(
            "telemetry.issues", "groups of exceptions with their status and assignee", is_noun=True
        ),
        "services": Command("telemetry.services", "rate, errors and latency of services", is_noun=True),
        "metrics": Command("telemetry.metrics", "metrics and their values", is_noun=True),
        "send": Command("ingest.send", "ship event files and access logs"),
        "receipt": Command("ingest.receipt", "show what became of an ingest batch", is_noun=True),
        "key": Command("ingest.keys", "ingest keys, with which applications send telemetry", is_noun=True),
    },
    "notifications": {
        "incidents": Command(
            "notifications.incidents", "incidents: open and resolved problems", is_noun=True
        ),
        "notifications": Command(
            "notifications.sent", "sent notifications with their recipients and deliveries", is_noun=True
        ),
        "channels": Command(
            "notifications.channels", "where notifications are sent: e-mail, chats, webhooks", is_noun=True
        ),
        "rules": Command(
            "notifications.rules", "notification rules: the recipients of incidents", is_noun=True
        ),
        "thresholds": Command(
            "notifications.thresholds", "limits of figures, beyond which an incident opens", is_noun=True
        ),
        "silences": Command("notifications.silences", "times in which incidents are not sent", is_noun=True),
        "quiet-hours": Command(
            "notifications.quiet_hours", "hours in which you get critical notifications only", is_noun=True
        ),
    },
    "analytics": {
        "site": Command("sites.site", "measured websites and their goals", is_noun=True),
        "sites": Command("sites.site", "show all sites at a glance", is_noun=True),
    },
    "account": {
        "logout": Command("login.login", "remove a stored token"),
        "whoami": Command("login.whoami", "show the installation, account and person of the next command"),
        "profile": Command("login.profile", "stored installations", is_noun=True),
        "account": Command(
            "accounts.account", "your account, and all accounts of an installation", is_noun=True
        ),
        "person": Command("accounts.person", "people in the account, and their roles", is_noun=True),
        "invitation": Command("accounts.invitation", "invitations of people to the account", is_noun=True),
        "token": Command("accounts.token", "API tokens", is_noun=True),
        "usage": Command("accounts.usage", "show the number of objects and the stored data of the account"),
        "audit": Command("accounts.audit", "show the audit log: changes with their author, time and origin"),
    },
    "on the machine of an installation": {
        "up": Command("processes.up", "run the whole platform in this process"),
        "edge": Command("processes.services", "run the ingest edge on Kafka and Redis"),
        "consumers": Command("processes.services", "run the consumers from Kafka into ClickHouse"),
        "control": Command("processes.services", "run the control plane on Postgres"),
        "deployer": Command("processes.services", "run deployments on this machine"),
        "migrate": Command("processes.migrate", "bring Kafka, ClickHouse and the database to this version"),
        "sign-in-link": Command("local.sign_in_link", "print a link with which a person sets a password"),
        "backup": Command(
            "local.backup", "make, list, test and restore backups of `pharos up`", is_noun=True
        ),
        "query": Command("telemetry.query", "query the column store in SQL"),
        "dead-letters": Command(
            "ingest.dead_letters", "list or replay records that could not be stored", is_noun=True
        ),
        "settings": Command("settings", "list all PHAROS_* variables", is_noun=True),
        "doctor": Command("doctor.doctor", "check whether Pharos can run here"),
    },
    "shells": {
        "completion": Command("grammar.completion_scripts", "print a completion script for your shell"),
    },
}
COMMANDS: Final[dict[str, Command]] = {
    name: command for group in COMMANDS_BY_GROUP.values() for name, command in group.items()
}

COMPLETE: Final = "__complete"
"""The hidden command that completion scripts call."""


def find_command(word: str) -> str | None:
    """Return the command with this name, or the plural or singular of this name; None for another word."""
    if word in COMMANDS:
        return word
    return next((name for name in _other_numbers(word) if name in COMMANDS and COMMANDS[name].is_noun), None)


def suggest_command(word: str) -> str:
    """Return ` Did you mean 'deploy'?` for commands that are similar to the unknown word, like `suggest`.

    A verb with an `s` (`deploys`) never runs, because the person may mean a list. Nouns come first then.
    """
    if synonyms := find_synonyms(word, COMMAND_SYNONYMS, COMMANDS):
        return join_suggestions(synonyms)
    verb = next((name for name in _other_numbers(word) if name in COMMANDS), None)
    if verb is None:
        return suggest(word, COMMANDS)
    nouns = [name for name, command in COMMANDS.items() if command.is_noun]
    return join_suggestions([*find_similar(word, nouns), verb])


def _other_numbers(word: str) -> Iterator[str]:
    """Yield the singulars and plurals of a word."""
    if word.endswith("ies"):
        yield word.removesuffix("ies") + "y"
    if word.endswith("s"):
        yield word.removesuffix("s")
    elif not word.endswith("y"):
        yield word + "s"
