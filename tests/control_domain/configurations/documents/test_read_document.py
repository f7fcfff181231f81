"""The configuration document, version 2: the values that are read from it."""

from collections.abc import Mapping

import pytest

from control_domain.configurations.documents.read_document import read_configuration
from control_domain.configurations.resources import (
    ConfigurationDocument,
    DesiredResource,
    Keep,
    Secret,
    Value,
)
from tests.support.configuration_texts import (
    CONTRACT,
    deleted,
    domains,
    environment,
    goals,
    heartbeats,
    site,
    variables,
)


def _digest(value: str) -> str:
    return f"digest of {value}"


def _read(text: str) -> ConfigurationDocument:
    return read_configuration(text, {}, _digest)


def _secret(value: str) -> Secret:
    return Secret(_digest(value), value)


def test_the_example_of_the_contract() -> None:
    document = read_configuration(CONTRACT, {"production_database": "postgresql://shop"}, _digest)
    production = ("environments", "production")
    assert document == ConfigurationDocument(
        [
            DesiredResource(("project",), {"name": "Shop"}, 2),
            DesiredResource(
                production,
                {
                    "type": "production",
                    "order": 3,
                    "branch": "main",
                    "replicas": 2,
                    "state": "running",
                    "locked": False,
                    "window": {
                        "days": ["mon", "tue", "wed", "thu"],
                        "from": "09:00",
                        "to": "16:00",
                        "timezone": "Europe/Oslo",
                    },
                    "approval.deploys": True,
                    "approval.variables": True,
                    "variables.APP_ENV": _secret("production"),
                    "variables.DATABASE_URL": _secret("postgresql://shop"),
                },
                4,
                frozenset({"variables.DATABASE_URL"}),
            ),
            DesiredResource(
                (*production, "heartbeats", "nightly-backup"),
                {
                    "cron": "0 3 * * *",
                    "period": None,
                    "timezone": "UTC",
                    "grace": "30m",
                    "max_runtime": "2h",
                },
                14,
            ),
            DesiredResource((*production, "queues", "default"), {}, 15),
            DesiredResource(
                ("sites", "www"),
                {
                    "domains": ["https://shop.example"],
                    "timezone": "Europe/Oslo",
                    "goals.Purchase": {"event": "purchase"},
                    "goals.Signup": {"path": "/welcome"},
                },
                17,
            ),
        ],
        {},
    )
    # Secrets compare by their digests, so the test compares the values separately.
    variables = [value for value in document.resources[1].fields.values() if isinstance(value, Secret)]
    assert [variable.value for variable in variables] == ["production", "postgresql://shop"]


def test_an_empty_document() -> None:
    nothing = ConfigurationDocument([], {})
    for text in (
        "version: 2",
        "version: 2\nenvironments:\nsites:\ndelete:",
        "{version: 2, environments: {}, delete: []}",
    ):
        assert _read(text) == nothing


def test_resources_without_settings_are_desired() -> None:
    text = """\
version: 2
project:
environments:
  a:
  b: {variables: , heartbeats: , queues: , approval: }
  c:
    heartbeats:
      h: {}
      i:
    queues:
      q:
sites:
  s:
  t: {goals: }
"""
    c = ("environments", "c")
    assert _read(text).resources == [
        DesiredResource(("project",), {}, 2),
        DesiredResource(("environments", "a"), {}, 4),
        DesiredResource(("environments", "b"), {}, 5),
        DesiredResource(c, {}, 6),
        DesiredResource((*c, "heartbeats", "h"), {}, 8),
        DesiredResource((*c, "heartbeats", "i"), {}, 9),
        DesiredResource((*c, "queues", "q"), {}, 11),
        DesiredResource(("sites", "s"), {}, 13),
        DesiredResource(("sites", "t"), {}, 14),
    ]


_WEEK = "days: [mon, tue, wed, thu, fri, sat, sun]"
_READ: dict[str, tuple[str, Mapping[str, Value]]] = {
    "the longest name": (environment(f"name: {'é' * 100}"), {"name": "é" * 100}),
    "a name with blanks around it": (environment("name: ' A b '"), {"name": "A b"}),
    "a name like a truth": (environment("name: no"), {"name": "no"}),
    "no branch": (environment("branch: null"), {"branch": None}),
    "a branch": (environment("branch: feature/x.y"), {"branch": "feature/x.y"}),
    "no window": (environment("window:"), {"window": None}),
    "a window in another order": (
        environment("window: {to: '02:00', timezone: UTC, days: [sun, mon, sun], from: '22:00'}"),
        {"window": {"days": ["mon", "sun"], "from": "22:00", "to": "02:00", "timezone": "UTC"}},
    ),
    "a window without quotes and zone": (
        environment(f"window: {{{_WEEK}, from: 00:00, to: 00:00}}"),
        {"window": {
            "days": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"], "from": "00:00", "to": "00:00",
            "timezone": "UTC"}},
    ),
    "the least numbers": (environment("order: 0", "replicas: 1"), {"order": 0, "replicas": 1}),
    "the most numbers": (environment("order: 1000", "replicas: 20"), {"order": 1000, "replicas": 20}),
    **{type_: (environment(f"type: {type_}"), {"type": type_}) for type_ in ("development", "staging", "production")},
    "hibernated": (environment("state: hibernated", "wake_on_request: true"), {
        "state": "hibernated", "wake_on_request": True}),
    "one approval": (environment("approval: {variables: false}"), {"approval.variables": False}),
    "variables": (
        variables("A: ''", "_b: \"x\\ny\\tz\\e\"", "c9: |", "    a", "    b", "D: {keep: true}", "E: 'no'",
                  "'null': x"),
        {"variables.A": _secret(""), "variables._b": _secret("x\ny\tz\x1b"), "variables.c9": _secret("a\nb\n"),
         "variables.D": Keep.KEEP, "variables.E": _secret("no"), "variables.null": _secret("x")},
    ),
    "the longest name of a variable": (variables(f"{'A' * 255}: x"), {f"variables.{'A' * 255}": _secret("x")}),
    "domains in other forms": (
        domains("Shop.example", "https://www.shop.example:443/", "http://localhost:8080", "'*.shop.example'",
                 "ø.example", "'http://[::1]:3000'"),
        {"domains": ["https://shop.example", "https://www.shop.example", "http://localhost:8080",
                     "https://*.shop.example", "https://xn--pda.example", "http://[::1]:3000"]},
    ),
    "goals": (
        goals("{name: ' Sign up ', path: ' /welcome '}", "{event: buy now, name: a.b}", "{name: Ω, path: /}"),
        {'goals["Sign up"]': {"path": "/welcome"}, 'goals["a.b"]': {"event": "buy now"}, 'goals["Ω"]': {"path": "/"}},
    ),
    "the longest targets": (
        goals(f"{{name: a, event: {'e' * 255}}}", f"{{name: b, path: /{'p' * 2047}}}"),
        {"goals.a": {"event": "e" * 255}, "goals.b": {"path": "/" + "p" * 2047}},
    ),
    "a site's zone": (site("timezone: America/St_Johns"), {"timezone": "America/St_Johns"}),
}  # fmt: skip


@pytest.mark.parametrize(("text", "fields"), _READ.values(), ids=_READ.keys())
def test_values_of_settings(text: str, fields: Mapping[str, Value]) -> None:
    (wanted,) = _read(text).resources
    assert wanted.fields == fields
    for called, value in fields.items():
        read = wanted.fields[called]
        assert not isinstance(value, Secret) or (isinstance(read, Secret) and read.value == value.value)


_SCHEDULED: dict[str, tuple[str, Mapping[str, Value]]] = {
    "period: 90s": ("{period: 90s}", {"cron": None, "period": "90s"}),
    "period: 120m": ("{period: 120m}", {"cron": None, "period": "2h"}),
    "period: 366d": ("{period: 366d}", {"cron": None, "period": "366d"}),
    "no grace": ("{grace: 0m, max_runtime: 1s}", {"grace": "0s", "max_runtime": "1s"}),
    "the longest": ("{grace: 366d, max_runtime: 8784h}", {"grace": "366d", "max_runtime": "366d"}),
    "failures": ("{failures_before_down: 1000, paused: false}", {"failures_before_down": 1000, "paused": False}),
    "cron of names": ("{cron: '*/5 9 L JAN-MAR mon', timezone: Etc/GMT+1}", {
        "cron": "*/5 9 L JAN-MAR mon", "period": None, "timezone": "Etc/GMT+1"}),
    "cron every 28 years": ("{cron: '0 0 */28 2 1#5'}", {"cron": "0 0 */28 2 1#5", "period": None}),
}  # fmt: skip


@pytest.mark.parametrize(("written", "fields"), _SCHEDULED.values(), ids=_SCHEDULED.keys())
def test_values_of_heartbeats(written: str, fields: Mapping[str, Value]) -> None:
    assert _read(heartbeats(f"h: {written}")).resources[1].fields == fields


def test_an_alias_has_the_value_of_its_anchor() -> None:
    text = "version: 2\nenvironments:\n  a: &e {type: staging, queues: {q: {}}}\n  b: *e\n"
    assert [(one.address[1:], one.line) for one in _read(text).resources] == [
        (("a",), 3), (("a", "queues", "q"), 3), (("b",), 4), (("b", "queues", "q"), 3)]  # fmt: skip


def test_deleted_addresses() -> None:
    addresses = {
        "environments.b": ("environments", "b"),
        "environments.b.heartbeats.nightly": ("environments", "b", "heartbeats", "nightly"),
        "'environments.a.heartbeats[\"a.b\"]'": ("environments", "a", "heartbeats", "a.b"),
        "environments.a.queues.q": ("environments", "a", "queues", "q"),
        "environments.a.variables.OLD": ("environments", "a", "variables", "OLD"),
        "environments.a.variables.null": ("environments", "a", "variables", "null"),
        "'sites[\"shop.example\"]'": ("sites", "shop.example"),
        "sites.s.goals.Signup": ("sites", "s", "goals", "Signup"),
        '\'sites.s.goals["\\u00e9 \\"\\""]\'': ("sites", "s", "goals", 'é ""'),
        "'sites.s.goals[\"$${x}\"]'": ("sites", "s", "goals", "${x}"),
    }
    text = deleted(*addresses)
    assert _read(text).deleted == {address: line for line, address in enumerate(addresses.values(), start=3)}
    # Fields of the same resource, and addresses with the same beginning, are not contradictions.
    text += "environments: {a: {variables: {NEW: '', OLD_TOO: ''}, heartbeats: {nightly: }, queues: {r: }}}\n"
    assert len(_read(f"{text}sites: {{s: {{goals: [{{name: Buy, path: /}}]}}}}").deleted) == len(addresses)


def test_the_most_resources_of_each_kind() -> None:
    environments = ",".join(f"a{n}: " for n in range(100))
    assert len(_read(f"version: 2\nenvironments: {{{environments}}}").resources) == 100
    goals = ",".join(f"{{name: a{n}, path: /}}" for n in range(100))
    domains = ",".join(f"a{n}" for n in range(50))
    assert len(_read(site(f"goals: [{goals}]", f"domains: [{domains}]")).resources[0].fields) == 101
    variables = ",".join(f"A{n}: ''" for n in range(1000))
    queues = ",".join(f"q{n}: " for n in range(1000))
    document = _read(environment(f"variables: {{{variables}}}", f"queues: {{{queues}}}"))
    assert len(document.resources) == 1001 and len(document.resources[0].fields) == 1000
    assert len(_read(heartbeats(*(f"h{n}: {{cron: '0 3 * * *'}}" for n in range(500)))).resources) == 501


def test_nothing_is_digested_but_the_values_of_variables() -> None:
    asked: list[str] = []

    def digest(value: str) -> str:
        asked.append(value)
        return ""

    text = variables("A: a", "B: ${b}", "C: {keep: true}").replace("a:\n", "a:\n    name: x\n", 1)
    read_configuration(text, {"b": "secret"}, digest)
    assert asked == ["a", "secret"]
