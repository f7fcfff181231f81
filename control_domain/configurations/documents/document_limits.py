"""Limits on what takes long to check in a configuration document."""

from collections.abc import Iterator, Mapping

from control_domain.configurations.documents.read_monitors import LONGEST_CRON
from control_domain.configurations.documents.read_site import LONGEST_ORIGIN
from control_domain.documents.field import Field
from control_domain.documents.strict_yaml import Node

MOST_ENVIRONMENTS = 100
MOST_SITES = 100
MOST_HEARTBEATS = 500
"""Of all environments together, as those that follow are of all environments or sites."""
MOST_QUEUES = 1000
MAX_DOMAINS = 1000
MOST_GOALS = 1000

_MOST_OF_CRON = 20_000
# What is not ASCII is mapped by the rules of IDNA first, character by character.
_MOST_OF_FOREIGN = 5_000


def read_environments(field: Field) -> Mapping[str, Field]:
    """The environments by slug; none where there is too much."""
    environments = field.members(allow_null=True) or {}
    heartbeats, queues = _parts(environments, "heartbeats"), _parts(environments, "queues")
    # A longer one is refused before it is looked at, in its place.
    lengths = (len(_text(_member(one, "cron"))) for one in heartbeats)
    cron = sum(length for length in lengths if length <= LONGEST_CRON)
    return _take(
        field,
        environments,
        ("environments", len(environments), MOST_ENVIRONMENTS),
        ("heartbeats", len(heartbeats), MOST_HEARTBEATS),
        ("queues", len(queues), MOST_QUEUES),
        ("characters of cron expressions", cron, _MOST_OF_CRON),
    )


def read_sites(field: Field) -> Mapping[str, Field]:
    """The sites by name; none where there is too much."""
    sites = field.members(allow_null=True) or {}
    domains, goals = _parts(sites, "domains"), _parts(sites, "goals")
    foreign = [text for one in domains if not (text := _text(one)).isascii() and len(text) <= LONGEST_ORIGIN]
    return _take(
        field,
        sites,
        ("sites", len(sites), MOST_SITES),
        ("domains", len(domains), MAX_DOMAINS),
        ("goals", len(goals), MOST_GOALS),
        ("characters of domains that are not in ASCII", sum(map(len, foreign)), _MOST_OF_FOREIGN),
    )


def _take(field: Field, members: Mapping[str, Field], *amounts: tuple[str, int, int]) -> Mapping[str, Field]:
    for what, amount, most in amounts:
        if amount > most:
            field.refuse(f"has {amount:,} {what}: {most:,} are the most in a document")
            return {}
    return members


def _parts(members: Mapping[str, Field], key: str) -> list[Node]:
    """What is in the lists or mappings that members have under the key."""
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
