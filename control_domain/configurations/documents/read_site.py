"""Read a site of a configuration document with its goals."""

from collections.abc import Mapping

from control_domain.configurations.addresses import GOALS, write_address
from control_domain.configurations.documents.read_settings import (
    BAD_NAME,
    Read,
    apply_rule,
    find_bound_fields,
    is_trimmed_name,
    read_name,
    read_settings,
    read_timezone,
)
from control_domain.configurations.resources import DesiredResource, Value
from control_domain.documents.field import Field
from control_domain.sites.site_rules import (
    AUTOMATIC_EVENTS,
    MAX_DOMAINS,
    MAX_EVENT_LENGTH,
    MAX_PATH_LENGTH,
    is_path,
)
from pipeline_contracts.origins import normalize_origin

MOST_GOALS = 100
LONGEST_ORIGIN = 300

_LONGEST_TARGET = {"event": MAX_EVENT_LENGTH, "path": MAX_PATH_LENGTH}
_NO_ORIGIN = "is not an origin: write https://shop.example, or https://*.shop.example"
_NO_TARGET = {
    "event": "is not the name of an event that visitors cause",
    "path": "is not a path: a path begins with / and has only printable characters, like /welcome",
}


def read_site(name: str, field: Field) -> DesiredResource:
    """Read the site; each goal is a field."""
    if not is_trimmed_name(name):
        field.refuse(BAD_NAME)
    members = field.known_members((*_SETTINGS, GOALS), allow_null=True) or {}
    fields, bound = read_settings(members, _SETTINGS), find_bound_fields(members, _SETTINGS)
    if GOALS in members:
        goals, bound_goals = _read_goals(members[GOALS])
        fields, bound = fields | goals, bound | bound_goals
    return DesiredResource(("sites", name), fields, field.node.line, bound)


def _read_domains(field: Field) -> list[str]:
    domains: list[str] = []
    for item in field.items(MAX_DOMAINS, least=1) or ():
        text = item.text(LONGEST_ORIGIN)
        domain = None if text is None else apply_rule(item, normalize_origin, text, _NO_ORIGIN)
        if domain in domains:
            item.refuse("is in the list already")
        elif domain is not None:
            domains.append(domain)
    return domains


def _read_goals(field: Field) -> tuple[dict[str, Value], frozenset[str]]:
    """Return the goals as `goals.NAME`, and the names of those that contain a binding's value."""
    goals: dict[str, Value] = {}
    bound: set[str] = set()
    for item in field.items(MOST_GOALS, allow_null=True) or ():
        members = item.known_members(("name", *_LONGEST_TARGET), needed=("name",)) or {}
        name = _read_goal_name(members["name"]) if "name" in members else None
        target = _read_target(item, members)
        if name is None:
            continue
        key = write_address((GOALS, name))
        if key in goals:
            members["name"].refuse("is already the name of another goal of the site")
        goals[key] = target
        if find_bound_fields(members, _LONGEST_TARGET):
            bound.add(key)
    return goals, frozenset(bound)


def _read_goal_name(field: Field) -> str | None:
    # Names of goals are shown in plans.
    if field.node.bound:
        field.refuse("is not secret, so it cannot contain a binding")
        return None
    return read_name(field)


def _read_target(goal: Field, members: Mapping[str, Field]) -> dict[str, str] | None:
    keys = [key for key in _LONGEST_TARGET if key in members]
    if len(keys) != 1:
        # A goal that is not a mapping is refused already.
        if members:
            goal.refuse("counts either an event or a path: give one of them")
        return None
    (key,) = keys
    text = members[key].text(_LONGEST_TARGET[key])
    if text is None:
        return None
    # Without surrounding blanks, as in the API.
    target = text.strip()
    if not target:
        members[key].refuse(_NO_TARGET[key])
        return None
    rule = _check_event if key == "event" else _check_path
    return {key: target} if apply_rule(members[key], rule, target, _NO_TARGET[key]) else None


def _check_event(event: str) -> str:
    if not event.isprintable():
        raise ValueError(f"An event's name has 1 to {MAX_EVENT_LENGTH} printable characters")
    if event in AUTOMATIC_EVENTS:
        raise ValueError(f"{event!r} is an event of the tracker itself: a goal must be an action of visitors")
    return event


def _check_path(path: str) -> str:
    if not is_path(path):
        raise ValueError(f"A path begins with / and has at most {MAX_PATH_LENGTH} characters, like /welcome")
    return path


_SETTINGS: Mapping[str, Read] = {"domains": _read_domains, "timezone": read_timezone}
