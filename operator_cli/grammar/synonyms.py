"""Words from other tools, with the corresponding names here. Similar spelling alone would suggest wrong commands."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

COMMAND_SYNONYMS: Final[Mapping[str, Sequence[str]]] = {
    **dict.fromkeys(("env", "envs"), ("environment",)),
    **dict.fromkeys(("status", "processes", "state"), ("ps",)),
    **dict.fromkeys(("people", "user", "users", "member", "members", "team"), ("person",)),
    **dict.fromkeys(("exception", "exceptions", "error", "errors"), ("issues",)),
    **dict.fromkeys(("event", "events"), ("tail",)),
    **dict.fromkeys(("secret", "secrets", "var", "vars"), ("variables",)),
    **dict.fromkeys(("cron", "job", "jobs"), ("heartbeat",)),
    **dict.fromkeys(("repo", "repos"), ("repository",)),
    **dict.fromkeys(("organization", "org"), ("account",)),
    **dict.fromkeys(("alert", "alerts", "alarm", "alarms"), ("incidents", "rules", "thresholds")),
    **dict.fromkeys(("integration", "integrations"), ("channels",)),
    **dict.fromkeys(("mute", "maintenance", "downtime"), ("silences",)),
    "analytics": ("report",),
    "apply": ("config apply",),
    "builds": ("deployments",),
    "domains": ("site",),
    "invite": ("person invite",),
    "plan": ("config plan",),
    "release": ("deploy", "promote"),
    "releases": ("deployments",),
    "scale": ("environment scale",),
    "start": ("up",),
    "version": ("--version",),
}
_REMOVING: Final = ("remove", "revoke", "unset", "disconnect", "close", "end", "clear")
_READING: Final = ("show", "list")
VERB_SYNONYMS: Final[Mapping[str, Sequence[str]]] = {
    **dict.fromkeys(("delete", "rm", "remove", "destroy", "drop"), _REMOVING),
    **dict.fromkeys(("get", "info", "describe", "view", "read", "show", "list", "ls"), _READING),
    **dict.fromkeys(("add", "new", "create"), ("create", "invite", "connect", "open", "set")),
    **dict.fromkeys(("update", "edit", "change"), ("set", "set-role")),
    **dict.fromkeys(("close", "done", "fix"), ("resolve",)),
    **dict.fromkeys(("ack", "confirm"), ("acknowledge",)),
    **dict.fromkeys(("mute", "snooze"), ("silence", "create")),
    **dict.fromkeys(("stop", "cancel", "expire"), ("end",)),
    **dict.fromkeys(("retry", "send", "repeat"), ("resend",)),
    "rename": ("rename", "set --name"),
}
"""The first word of each entry is a verb."""


def find_synonyms(word: str, synonyms: Mapping[str, Sequence[str]], known: Iterable[str]) -> Sequence[str]:
    """Return the known commands or verbs that are synonyms of `word`; empty if there are none."""
    names = frozenset(known)
    return [name for name in synonyms.get(word, ()) if name.startswith("-") or name.split()[0] in names]
