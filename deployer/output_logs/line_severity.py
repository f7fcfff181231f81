"""Recognizes the severity that a line of output names, as Grafana Loki (`detected_level`) and Datadog do.

A word counts only where loggers write it, so that prose about errors stays `info`: at the beginning of the line, in
brackets, before a colon, or after a timestamp and the name of a logger. Only the first characters are searched, so a
long line costs no more than a short one.
"""

import re
from collections.abc import Mapping
from typing import Final

SEVERITIES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("trace", "verbose", "debug"), "debug"),
    **dict.fromkeys(("info", "information", "notice", "log"), "info"),
    **dict.fromkeys(("warn", "warning"), "warning"),
    **dict.fromkeys(("err", "error"), "error"),
    **dict.fromkeys(("critical", "crit", "fatal", "alert", "emerg", "emergency", "panic"), "critical"),
}
"""The severity of each name of a level, in lower case."""

_HEAD = 80
"""Characters in which a word is searched. Timestamps and names of loggers are shorter."""
_LOGFMT_HEAD = 200
_WORDS = "trace|debug|info|notice|warn|warning|err|error|critical|crit|fatal|alert|emerg|emergency"
_CAPITALS = _WORDS.upper()
_LOGFMT = re.compile(rf"(?:^|\s)(?:level|lvl|severity)=[\"']?({_WORDS}|panic)\b", re.IGNORECASE)
# klog and glog, as in Kubernetes: `E1128 04:00:00.123456 …`.
_KLOG = re.compile(r"([IWEF])\d{4} \d\d:\d\d:\d\d")
_KLOG_SEVERITIES = {"I": "info", "W": "warning", "E": "error", "F": "critical"}
# What runtimes print when a program fails.
_FAILURE = re.compile(
    r"\s*(?:\+ Exception Group )?Traceback \(most recent call last\):"
    r"|(?:Uncaught|Unhandled|Unhandled[A-Z]\w*)\b"
    r"|Exception in thread \""
    r"|(?:panic|fatal error|runtime error): "
    r"|thread '[^']*'(?: \(\d+\))? panicked at "
    r"|npm (?:ERR!|error )"
    r"|PHP (?:Fatal|Parse) error:"
    r"|(?:(?:[A-Za-z_][\w.$:]*)?(?:Error|Exception)|SystemExit|KeyboardInterrupt)(?: \[[\w.]+\])?(?::\s|:?$)"
)
# Any case before a colon at the beginning of the line: `error: …`, `Warning: …`.
_LABEL = re.compile(rf"(?:PHP )?({_WORDS})\s?:(?=\s|$)", re.IGNORECASE)
_FIRST_WORD = re.compile(rf"({_CAPITALS})(?=[\s:|\]-]|$)")
_BEFORE_COLON = re.compile(rf"(?<![\w./?=&%-])({_CAPITALS}):(?=\s|$)")
# `[error]`, `[core:error]`, `[ERROR   ]`, `<warn>`.
_BRACKETED = re.compile(rf"[\[<(](?:\w{{1,20}}:)?\s{{0,8}}({_WORDS})\s{{0,8}}[\])>]", re.IGNORECASE)
# After a timestamp or brackets: `2026-11-28 04:00:00,123 - app - ERROR - …`, `E, [2026-…] ERROR -- : …`.
_PREFIXED = re.compile(r"[\[(\d]|[A-Z], \[")
_DELIMITED = re.compile(rf"(?:(?<=[\s|])|^)({_CAPITALS})(?=[\s|:,]|$)")
_PROSE = re.compile(r"[A-Za-z]{2,} [A-Za-z]{2,}")
_IN_BRACKETS = re.compile(r"\[[^\[\]]*\]")


def find_severity(text: str) -> str | None:
    """Return the severity that the line names; None if it names none."""
    head = text[:_HEAD]
    if found := _LOGFMT.search(text[:_LOGFMT_HEAD]):
        return SEVERITIES[found[1].lower()]
    if found := _KLOG.match(head):
        return _KLOG_SEVERITIES[found[1]]
    if _FAILURE.match(head):
        return "error"
    found = _LABEL.match(head) or _FIRST_WORD.match(head)
    if found is None:
        found = _find_without_prose(_BRACKETED, head) or _BEFORE_COLON.search(head)
    if found is None and _PREFIXED.match(head):
        found = _find_without_prose(_DELIMITED, head)
    return SEVERITIES[found[1].lower()] if found else None


def _find_without_prose(pattern: re.Pattern[str], head: str) -> re.Match[str] | None:
    """Return the first match before which no two words follow each other: these would be a sentence."""
    found = pattern.search(head)
    if found is None:
        return None
    # Brackets may hold the name of a day.
    return None if _PROSE.search(_IN_BRACKETS.sub("", head[: found.start()])) else found
