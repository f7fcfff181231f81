"""Limits on the parts of a configuration document that are slow to check.

A text of 50,000 characters exceeds them only if aliases or bindings repeat its parts.
"""

from collections.abc import Iterator, Mapping

from control_domain.configurations.addresses import THRESHOLDS
from control_domain.configurations.documents.read_site import LONGEST_ORIGIN
from control_domain.documents.field import Field
from control_domain.documents.strict_yaml import Node
from control_domain.monitors.settings import MAX_CRON_LENGTH

MOST_ENVIRONMENTS = 100
MOST_SITES = 100
MOST_HEARTBEATS = 500
"""Heartbeats of all environments together; the limits below also count the whole document."""
MOST_QUEUES = 1000
MOST_THRESHOLDS = 500
MOST_RULES = 100
MAX_DOMAINS = 1000
MOST_GOALS = 1000

_MOST_OF_CRON = 20_000
# Non-ASCII domains are slow: IDNA maps them character by character.
_MOST_OF_FOREIGN = 5_000


def read_environments_within_limits(field: Field) -> Mapping[str, Field]:
    """Return the environments by slug; none if a limit is exceeded."""
    environments = field.members(allow_null=True) or {}
    heartbeats, queues = _parts(environments, "heartbeats"), _parts(environments, "queues")
    thresholds = _parts(environments, THRESHOLDS)
    # Longer expressions are refused without being parsed.
    lengths = (len(_text(_member(heartbeat, "cron"))) for heartbeat in heartbeats)
    cron = sum(length for length in lengths if length <= MAX_CRON_LENGTH)
    return _check_limits(
        field,
        environments,
        ("environments", len(environments), MOST_ENVIRONMENTS),
        ("heartbeats", len(heartbeats), MOST_HEARTBEATS),
        ("queues", len(queues), MOST_QUEUES),
        ("thresholds", len(thresholds), MOST_THRESHOLDS),
        ("characters of cron expressions", cron, _MOST_OF_CRON),
    )


def read_sites_within_limits(field: Field) -> Mapping[str, Field]:
    """Return the sites by name; none if a limit is exceeded."""
    sites = field.members(allow_null=True) or {}
    domains, goals = _parts(sites, "domains"), _parts(sites, "goals")
    foreign = [
        text for domain in domains if not (text := _text(domain)).isascii() and len(text) <= LONGEST_ORIGIN
    ]
    return _check_limits(
        field,
        sites,
        ("sites", len(sites), MOST_SITES),
        ("domains", len(domains), MAX_DOMAINS),
        ("goals", len(goals), MOST_GOALS),
        ("characters of domains that are not in ASCII", sum(map(len, foreign)), _MOST_OF_FOREIGN),
    )


def read_rules_within_limits(field: Field) -> Mapping[str, Field]:
    """Return the notification rules by name; none if there are too many."""
    rules = field.members(allow_null=True) or {}
    return _check_limits(field, rules, ("rules", len(rules), MOST_RULES))


def _check_limits(
    field: Field, members: Mapping[str, Field], *amounts: tuple[str, int, int]
) -> Mapping[str, Field]:
    for noun, amount, limit in amounts:
        if amount > limit:
            field.refuse(f"has {amount:,} {noun}: the limit of a document is {limit:,}")
            return {}
    return members


def _parts(members: Mapping[str, Field], key: str) -> list[Node]:
    """Return the items of the lists or mappings that members have under the key."""
    return [part for member in members.values() for part in _items(_member(member.node, key))]


def _member(node: Node, key: str) -> Node | None:
    return node.value.get(key) if isinstance(node.value, Mapping) else None


def _items(node: Node | None) -> Iterator[Node]:
    if node is not None and isinstance(node.value, Mapping):
        yield from node.value.values()
    elif node is not None and isinstance(node.value, tuple):
        yield from node.value


def _text(node: Node | None) -> str:
    return node.value if node is not None and isinstance(node.value, str) else ""
