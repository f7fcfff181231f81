"""Hypothesis strategies for possible projects, and for configuration documents that are valid on them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from hypothesis import strategies as st

from control_domain.configurations.addresses import (
    GOALS,
    PROJECT,
    RULES,
    THRESHOLDS,
    VARIABLES,
    Address,
    Kind,
    find_kind,
    read_address,
    write_address,
)
from control_domain.configurations.resources import (
    FIELDS,
    REQUIRED,
    VERSION,
    ConfigurationDocument,
    CurrentResource,
    DesiredResource,
    Keep,
    ProjectState,
    Secret,
    Value,
)
from control_domain.environments.windows import DAYS
from control_domain.slugs import is_name
from pipeline_contracts.durations import format_duration
from pipeline_contracts.git_refs import is_ref
from tests.support.serve_control import VARIABLE_KEYS

LINEAGE = "prj_01j00000000000000000000000"
Draw = Callable[[st.SearchStrategy[Any]], Any]


def digest(value: str) -> str:
    """Return the digest of a variable in the project of `states`."""
    return VARIABLE_KEYS.digest(value, LINEAGE)


# Texts that some version of YAML reads as something other than a text, or that end a text.
HOSTILE = (
    "no", "017", "1e3", "~", "2026-01-01", "null", "Null", "true", "FALSE", "0x1f", "0o17", ".inf", ".nan", "-.5",
    "1_000", "12:30", "12:30:45", "0b11", "on", "y", "=", "<<", "---", "...", "99999999999999999999999", "+1", "1.",
    "${x}", "$${x}", "$$${", "a$", "${", "{$", "a: b", "a:", ": a", "a #b", "#a", "'", "'a'", '"', '"a"', "\\", "\\n",
    "a\\", "- a", "-", "-a", "? a", "?", "{a}", "{", "[a]", "]", "&a", "*a", "!a", "!!str a", "|", ">", "%YAML", "@a",
    "`a", ",", "a, b", "a,b", "a  b", "/", "/a b", "東京 🚀", "é", "e\u0301", "ß: 1", "keep", "a]", "a}: b",
)  # fmt: skip
_letters = st.characters(exclude_categories=["C", "Z"]) | st.sampled_from(" $:{}#'\"\\-,")
_texts = st.text(_letters, min_size=1, max_size=12).map(str.strip)
_names = st.sampled_from(HOSTILE) | _texts.filter(is_name)
_slugs = st.sampled_from(
    (
        "production",
        "staging",
        "no",
        "on",
        "null",
        "true",
        "1e3",
        "0x1f",
        "2026-01-01",
        "nan",
        "a-1",
        "2fa",
        "y",
    )
) | st.text("ae01", min_size=1, max_size=5).filter(lambda slug: not slug.isdigit())
_branches = (st.sampled_from(HOSTILE) | _texts).filter(is_ref)
_zones = st.sampled_from(("UTC", "Europe/Oslo", "America/St_Johns", "Etc/GMT+1"))
_clock = st.sampled_from(("00:00", "09:00", "16:30", "23:59"))
_origins = st.sampled_from(
    ("https://shop.example", "https://*.shop.example", "http://localhost:8080", "http://[::1]:3000")
) | st.integers(0, 99).map(lambda number: f"https://a-rather-long-name-{number}.example")
_crons = st.sampled_from(("0 3 * * *", "*/5 * * * *", "0 9 * * MON-FRI", "15 2 1 * *"))
_periods = st.sampled_from((1, 59, 60, 90, 1800, 3600, 5400, 86_400, 366 * 86_400)).map(format_duration)
_variable_names = st.sampled_from(("APP_ENV", "DATABASE_URL", "no", "null", "NULL", "y", "_", "a1", "True"))
_variable_values = st.sampled_from(("", "1", "no", "two\nlines\n", "${x}")) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12
)
_windows = st.builds(
    lambda days, begin, end, zone: {
        "days": [day for day in DAYS if day in days],
        "from": begin,
        "to": end,
        "timezone": zone,
    },
    st.sets(st.sampled_from(DAYS), min_size=1),
    _clock,
    _clock,
    _zones,
)
_GIVEN: Mapping[Kind, Mapping[str, st.SearchStrategy[Any]]] = {
    "project": {"name": _names},
    "environment": {
        "name": _names,
        "type": st.sampled_from(("development", "staging", "production")),
        "order": st.integers(0, 1000) | st.integers(1, 3),
        "branch": st.none() | _branches,
        "replicas": st.integers(1, 20),
        "state": st.sampled_from(("running", "hibernated")),
        "locked": st.booleans(),
        "window": st.none() | _windows,
        "approval.deploys": st.booleans(),
        "approval.variables": st.booleans(),
        "wake_on_request": st.booleans(),
    },
    "heartbeat": {
        "timezone": _zones,
        "grace": _periods | st.just("0s"),
        "max_runtime": _periods,
        "failures_before_down": st.integers(1, 1000),
        "paused": st.booleans(),
    },
    "queue": {},
    "site": {"domains": st.lists(_origins, min_size=1, max_size=6, unique=True), "timezone": _zones},
    # Drawn as a whole by `_draw_threshold` and `_draw_rule`: their fields depend on each other.
    "threshold": {},
    "rule": {},
}
_severities = st.sampled_from(("info", "warning", "critical"))
_limits = st.integers(0, 1000) | st.sampled_from((0.5, 1e-07, 250_000_000_000_000))
_kinds = st.sampled_from(("heartbeat", "queue.wait", "deployment.failed", "metric"))
_THRESHOLD = {
    "service": st.none() | _texts.filter(str.isprintable),
    "aggregation": st.sampled_from(("avg", "last")),
    "window": st.sampled_from(("1m", "5m", "1h", "90s")),
    "pending": st.sampled_from(("0s", "1m", "1d")),
    "severity": _severities,
    "enabled": st.booleans(),
}
_RULE = {
    "kinds": st.none() | st.lists(_kinds, min_size=1, unique=True).map(sorted),
    "min_severity": _severities,
    "reminders": st.booleans(),
    "enabled": st.booleans(),
}
CHANNELS = ("ops", "no", "1e3", "${x}")
PEOPLE = ("ada@shop.example", "kim@shop.example")
_schedules = st.one_of(
    _crons.map(lambda cron: {"cron": cron, "period": None}),
    _periods.map(lambda period: {"cron": None, "period": period}),
)
_targets = st.one_of(
    _names.map(lambda event: {"event": event}),
    _texts.map(lambda path: {"path": f"/{path}"}),
)
_secrets = _variable_values.map(lambda value: Secret(digest(value), value))
# For each kind with members: the field of the members, their names and their values.
_MEMBERS: Mapping[Kind, tuple[str, st.SearchStrategy[str], st.SearchStrategy[Any]]] = {
    "environment": (VARIABLES, _variable_names, _secrets),
    "site": (GOALS, _names, _targets),
}


@st.composite
def states(draw: Any) -> ProjectState:
    """Projects with all resources that documents can describe, with names that are hard to quote."""
    addresses: list[Address] = [PROJECT]
    slugs = draw(st.lists(_slugs, max_size=4, unique=True))
    previews = slugs[3:]
    for slug in slugs[:3]:
        addresses.append(("environments", slug))
        for holder in ("heartbeats", "queues", THRESHOLDS):
            names = draw(st.lists(_names, max_size=2, unique=True))
            addresses += [("environments", slug, holder, name) for name in names]
    addresses += [("sites", name) for name in draw(st.lists(_names, max_size=2, unique=True))]
    addresses += [(*RULES, name) for name in draw(st.lists(_names, max_size=2, unique=True))]
    resources = {address: CurrentResource(address, _draw_present(draw, address)) for address in addresses}
    environments = [address for address in addresses if find_kind(address) == "environment"]
    awaiting = draw(st.sets(st.sampled_from(environments))) if environments else ()
    present = ProjectState(
        LINEAGE,
        draw(st.integers(0, 9)),
        resources,
        frozenset(awaiting),
        frozenset(previews),
        frozenset(CHANNELS),
        frozenset(PEOPLE),
    )
    for address in addresses:
        if kind_of(address) in ("threshold", "rule"):
            drawn = (
                _draw_threshold(draw, None)
                if kind_of(address) == "threshold"
                else _draw_rule(draw, None, present, slugs[:3])
            )
            resources[address] = CurrentResource(address, {**FIELDS[kind_of(address)], **_complete(drawn)})
    return present


def _draw_present(draw: Draw, address: Address) -> dict[str, Value]:
    kind = kind_of(address)
    fields: dict[str, Value] = dict(draw(_schedules)) if kind == "heartbeat" else {}
    for field, strategy in _GIVEN[kind].items():
        default = FIELDS[kind][field]
        fields[field] = draw(strategy if default is None else st.just(default) | strategy)
    if kind not in _MEMBERS:
        return fields
    holder, names, values = _MEMBERS[kind]
    for name in draw(st.sets(names, max_size=3)):
        value = draw(values)
        # The stored state has only the digest of a secret.
        fields[write_address((holder, name))] = Secret(value.digest) if isinstance(value, Secret) else value
    return fields


def _complete(fields: dict[str, Value]) -> dict[str, Value]:
    """Return the fields with the defaults of a new threshold added."""
    if "threshold" not in fields:
        return fields
    return {"recovery": fields["threshold"], "severity": "warning", **fields}


def _draw_threshold(draw: Draw, present: CurrentResource | None) -> dict[str, Value]:
    """Draw some fields of a threshold that are consistent with its present fields."""
    fields = {field: draw(strategy) for field, strategy in _THRESHOLD.items() if draw(st.booleans())}
    if present is None or draw(st.booleans()):
        low, high = sorted((draw(_limits), draw(_limits)))
        is_above = draw(st.booleans())
        fields |= {
            "kind": "metric.value",
            "target": draw(_texts.filter(bool)),
            "direction": "above" if is_above else "below",
            "threshold": high if is_above else low,
        }
        if present is not None or draw(st.booleans()):
            fields["recovery"] = low if is_above else high
    return fields


def _draw_rule(
    draw: Draw, present: CurrentResource | None, state: ProjectState, slugs: Sequence[str]
) -> dict[str, Value]:
    """Draw some fields of a rule, so that the rule has a recipient and its environment is one of these."""
    fields = {field: draw(strategy) for field, strategy in _RULE.items() if draw(st.booleans())}
    is_stranded = present is not None and present.fields["environment"] not in (None, *slugs)
    if is_stranded or draw(st.booleans()):
        fields["environment"] = draw(st.sampled_from((None, *slugs)))
    if present is None or draw(st.booleans()):
        channels = draw(st.sets(st.sampled_from(sorted(state.channels)), max_size=2))
        people = draw(
            st.sets(st.sampled_from(sorted(state.people)), max_size=2, min_size=0 if channels else 1)
        )
        fields |= {"channels": sorted(channels), "people": sorted(people)}
    return fields


def _members(resource: CurrentResource | DesiredResource) -> Sequence[Address]:
    """Return the addresses of the resource's variables or goals."""
    fields = sorted(resource.fields.keys() - FIELDS[kind_of(resource.address)].keys())
    return [read_address(f"{write_address(resource.address)}.{field}") for field in fields]


def kind_of(address: Address) -> Kind:
    """Return the kind of the resource at this address."""
    kind = find_kind(address)
    assert kind is not None
    return kind


@dataclass(frozen=True, slots=True)
class RandomDocument:
    """A document, its YAML as a tree, and the bindings that the YAML needs. The line of every resource is 1."""

    document: ConfigurationDocument
    tree: Mapping[str, Any]
    bindings: Mapping[str, str]

    @property
    def text(self) -> str:
        """The YAML of the document."""
        return write_tree(self.tree)


@st.composite
def documents_for(draw: Any, state: ProjectState) -> RandomDocument:
    """Documents that create, change, keep and delete resources and members of the project in this state."""
    deleted = _draw_deleted(draw, state)
    addresses = _draw_addresses(draw, state, deleted)
    slugs = sorted(
        {
            address[1]
            for address in (*state.resources, *addresses)
            if find_kind(address) == "environment" and address not in deleted
        }
    )
    wanted = [
        DesiredResource(address, _draw_wanted(draw, address, state, deleted, slugs), 1)
        for address in addresses
    ]
    bindings: dict[str, str] = {}
    tree: dict[str, Any] = {"version": VERSION}
    bound = [_plant(draw, tree, one, bindings) for one in wanted]
    if deleted:
        tree["delete"] = [write_address(address).replace("${", "$${") for address in deleted]
    return RandomDocument(ConfigurationDocument(bound, dict.fromkeys(deleted, 1)), tree, bindings)


def _in_order(state: ProjectState) -> Sequence[Address]:
    """Return the addresses of the resources in a fixed order. A database returns them in any order, and Hypothesis
    would then draw other values in a replay."""
    return sorted(state.resources)


def _draw_deleted(draw: Draw, state: ProjectState) -> Sequence[Address]:
    """Draw resources and members to delete, some of which do not exist."""
    there = [address for address in _in_order(state) if address != PROJECT]
    there += [member for address in _in_order(state) for member in _members(state.resources[address])]
    there += [("environments", "gone"), ("sites", "gone", GOALS, "Gone")]
    chosen: Sequence[Address] = draw(st.lists(st.sampled_from(there), max_size=3, unique=True))
    # A member is deleted with its parent, so the document does not name it too.
    return [one for one in chosen if not any(_is_within(one, other) for other in chosen)]


def _is_within(address: Address, other: Address) -> bool:
    return len(address) > len(other) and address[: len(other)] == other


def _draw_addresses(draw: Draw, state: ProjectState, deleted: Sequence[Address]) -> Sequence[Address]:
    """Draw the resources in the document: existing and new ones."""

    def choose(holder: Address, strategy: st.SearchStrategy[str]) -> Sequence[Address]:
        there = [one for one in _in_order(state) if one[:-1] == holder and draw(st.booleans())]
        more = [(*holder, name) for name in sorted(draw(st.sets(strategy, max_size=1)))]
        return [one for one in dict.fromkeys([*there, *more]) if one not in deleted]

    addresses: list[Address] = [PROJECT] if draw(st.booleans()) else []
    for environment in choose(("environments",), _slugs.filter(lambda slug: slug not in state.previews)):
        addresses.append(environment)
        for holder in ("heartbeats", "queues", THRESHOLDS):
            addresses += choose((*environment, holder), _names)
    rules = choose(RULES, _names.filter(lambda name: name not in state.other_rules))
    return [*addresses, *choose(("sites",), _names), *rules]


def _draw_wanted(
    draw: Draw, address: Address, state: ProjectState, deleted: Sequence[Address], slugs: Sequence[str]
) -> dict[str, Value]:
    """Draw the fields of a resource in the document. `slugs` are those of the environments after the run."""
    kind, present = kind_of(address), state.resources.get(address)
    if kind == "threshold":
        return _draw_threshold(draw, present)
    if kind == "rule":
        return _draw_rule(draw, present, state, slugs)
    needed = [] if present is not None else [name for group in REQUIRED[kind] for name in group]
    fields: dict[str, Value] = {}
    if kind == "heartbeat" and (needed or draw(st.booleans())):
        fields |= draw(_schedules)
    for field, strategy in _GIVEN[kind].items():
        if field in needed or draw(st.booleans()):
            fields[field] = draw(strategy)
    if kind not in _MEMBERS:
        return fields
    holder, names, values = _MEMBERS[kind]
    for member in _members(present) if present is not None else ():
        if member not in deleted and draw(st.booleans()):
            value = draw(st.just(Keep.KEEP) | values if kind == "environment" else values)
            fields[write_address(member[-2:])] = value
    for name in sorted(draw(st.sets(names, max_size=2))):
        if (*address, holder, name) not in deleted:
            fields.setdefault(write_address((holder, name)), draw(values))
    return fields


def _plant(
    draw: Draw, tree: dict[str, Any], wanted: DesiredResource, bindings: dict[str, str]
) -> DesiredResource:
    """Write the resource into the tree, with some of its texts as bindings. Return the resource with the names of the
    bound fields."""
    for part in wanted.address:
        tree = tree.setdefault(part, {})
    members = {write_address(member[-2:]): member[-2:] for member in _members(wanted)}
    bound = set()
    for field, value in wanted.fields.items():
        if field in ("cron", "period") and value is None:
            continue
        before = len(bindings)
        # Thresholds and rules have no bindings.
        is_shown = kind_of(wanted.address) in ("threshold", "rule")
        written = _escape_all(value) if is_shown else _bind(draw, value, bindings)
        if len(bindings) > before:
            bound.add(field)
        outer, inner = members.get(field, field.partition(".")[::2])
        if outer == GOALS:
            tree.setdefault(GOALS, []).append({"name": _escape(inner), **written})
        elif inner:
            tree.setdefault(outer, {})[inner] = written
        else:
            tree[outer] = written
    return replace(wanted, bound=frozenset(bound))


def _bind(draw: Draw, value: Any, bindings: dict[str, str]) -> Any:
    """Return the value as it is written in YAML. Each of its texts may come from a binding as a whole or in part."""
    match value:
        case str():
            begin, end = draw(_cuts(value))
            if begin is None or value[:begin].endswith("$"):
                return _escape(value)
            name = f"b{len(bindings)}"
            bindings[name] = value[begin:end]
            return f"{_escape(value[:begin])}${{{name}}}{_escape(value[end:])}"
        case Keep():
            return {"keep": True}
        case Secret():
            return _bind(draw, value.value, bindings)
        case Mapping():
            return {key: _bind(draw, member, bindings) for key, member in value.items()}
        case list():
            return [_bind(draw, item, bindings) for item in value]
        case _:
            return value


def _cuts(text: str) -> st.SearchStrategy[tuple[int | None, int]]:
    """Draw the begin and the end of the part of a text that a binding provides; (None, 0) for no binding."""
    places = st.integers(0, len(text))
    inside = st.tuples(places, places).map(lambda both: (min(both), max(both)))
    return st.just((None, 0)) | st.just((None, 0)) | st.just((0, len(text))) | inside


def _escape_all(value: Any) -> Any:
    if isinstance(value, list):
        return [_escape_all(item) for item in value]
    return _escape(value) if isinstance(value, str) else value


def _escape(text: str) -> str:
    return text.replace("${", "$${")


def write_tree(tree: Any) -> str:
    """Return YAML on one line. It is JSON except for the escapes, because YAML has no surrogates."""
    match tree:
        case None:
            return "null"
        case bool():
            return "true" if tree else "false"
        case str():
            return f'"{"".join(map(_write_character, tree))}"'
        case Mapping():
            return (
                f"{{{', '.join(f'{write_tree(key)}: {write_tree(value)}' for key, value in tree.items())}}}"
            )
        case list():
            return f"[{', '.join(map(write_tree, tree))}]"
        case _:
            return str(tree)


def _write_character(character: str) -> str:
    if character.isascii() and character.isprintable() and character not in '"\\':
        return character
    return f"\\U{ord(character):08x}"


def shuffle_tree(tree: Any, random: Random) -> Any:
    """Return the tree with the keys of its mappings in random order."""
    if isinstance(tree, list):
        return [shuffle_tree(item, random) for item in tree]
    if not isinstance(tree, Mapping):
        return tree
    keys = list(tree)
    random.shuffle(keys)
    return {key: shuffle_tree(tree[key], random) for key in keys}
