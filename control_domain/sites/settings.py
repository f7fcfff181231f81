"""Checks settings of sites and goals. Every function raises `InvalidInput` with all invalid fields.

Lengths of texts and lists are part of the types, which callers check, except those that depend on spaces.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

from msgspec import Meta

from control_domain.sites.site_rules import (
    AUTOMATIC_EVENTS,
    MAX_DOMAINS,
    MAX_EVENT_LENGTH,
    MAX_PATH_LENGTH,
    is_path,
    is_timezone,
    make_default_name,
)
from control_domain.slugs import MAX_NAME_LENGTH, is_name
from pipeline_contracts.errors import FieldError, invalid_field, invalid_fields
from pipeline_contracts.origins import normalize_origin

SiteName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_NAME_LENGTH,
        description="1 to 100 printable characters; unique in the project.",
    ),
]
Domains = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=300)]],
    Meta(
        min_length=1,
        max_length=MAX_DOMAINS,
        description="The origins that may send events. https is the default scheme; `*.` stands for all subdomains.",
        examples=[["https://shop.example", "https://*.shop.example"]],
    ),
]
Timezone = Annotated[
    str,
    Meta(
        max_length=64,
        description="The IANA time zone of the site's days, also of past days.",
        examples=["Europe/Oslo"],
    ),
]
GoalName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_NAME_LENGTH,
        description="1 to 100 printable characters; unique in the site.",
    ),
]
GoalEvent = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_EVENT_LENGTH,
        description="The name of an event that visitors send. Either this or `path`.",
    ),
]
GoalPath = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_PATH_LENGTH,
        description="The path of a page that visitors view. Either this or `event`.",
        examples=["/welcome"],
    ),
]


class SiteSettings(NamedTuple):
    """The settings of a site, with normalized domains."""

    name: str
    domains: Sequence[str]
    timezone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteChanges:
    """The settings of a site that change; None leaves a setting unchanged."""

    name: str | None = None
    domains: Sequence[str] | None = None
    timezone: str | None = None


class GoalSettings(NamedTuple):
    """The settings of a goal; either `event` or `path` is None."""

    name: str
    event: str | None
    path: str | None


def check_new_site(name: str | None, domains: Sequence[str], timezone: str) -> SiteSettings:
    """Return the settings of a new site. `name` None means the host of the first domain."""
    changes = SiteChanges(name=name, domains=domains, timezone=timezone)
    checked = check_site_changes(changes)
    assert checked.domains is not None
    return SiteSettings(checked.name or make_default_name(checked.domains[0]), checked.domains, timezone)


def check_site_changes(changes: SiteChanges) -> SiteChanges:
    """Return the changes with normalized domains, and without spaces around the name."""
    errors: list[FieldError] = []
    name = None if changes.name is None else changes.name.strip()
    if name is not None:
        errors += _find_name_faults(name)
    domains = None if changes.domains is None else _read_domains(changes.domains, errors)
    if changes.timezone is not None and not is_timezone(changes.timezone):
        errors.append(FieldError("timezone", "must be the name of a time zone, like Europe/Oslo, or UTC"))
    if errors:
        raise invalid_fields(errors)
    return replace(changes, name=name, domains=domains)


def _read_domains(domains: Sequence[str], errors: list[FieldError]) -> Sequence[str]:
    """Return the normalized origins, each once."""
    origins: list[str] = []
    for index, text in enumerate(domains):
        try:
            origins.append(normalize_origin(text))
        except ValueError as error:
            errors.append(FieldError(f"domains[{index}]", str(error)))
    return list(dict.fromkeys(origins))


def check_goal(name: str | None, event: str | None, path: str | None) -> GoalSettings:
    """Return the settings of a goal without spaces around them. `name` None means the event or the path itself."""
    if event is None and path is None:
        raise invalid_field("event", "is required unless path is given")
    if event is not None and path is not None:
        raise invalid_field("path", "must be left out if event is given")
    event, path = (None if text is None else text.strip() for text in (event, path))
    target = event or path or ""
    errors = [*_find_target_faults(event, path)]
    if name is not None:
        name = name.strip()
        errors += _find_name_faults(name)
    elif len(target) > MAX_NAME_LENGTH:
        errors.append(
            FieldError("name", f"is required for an event or path of more than {MAX_NAME_LENGTH} characters")
        )
    if errors:
        raise invalid_fields(errors)
    return GoalSettings(target if name is None else name, event, path)


def _find_name_faults(name: str) -> Iterator[FieldError]:
    if not is_name(name):
        yield FieldError("name", f"must be 1 to {MAX_NAME_LENGTH} printable characters")


def _find_target_faults(event: str | None, path: str | None) -> Iterator[FieldError]:
    if event is not None:
        if not event or not event.isprintable():
            yield FieldError("event", f"must be 1 to {MAX_EVENT_LENGTH} printable characters")
        elif event in AUTOMATIC_EVENTS:
            yield FieldError("event", f"must not be {event!r}, which the tracker sends by itself")
    if path is not None and not is_path(path):
        yield FieldError("path", "must begin with / and consist of printable characters")
