"""The schema of configuration documents accepts what the reader accepts, and refuses what the reader refuses, except
for rules that no schema can express."""

import copy
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_api.schemas.load_schema import CONFIGURATION
from control_domain.configurations.documents.read_document import read_configuration
from control_domain.configurations.resources import ConfigurationDocument
from control_domain.documents.faults import DocumentFault
from pipeline_contracts.git_refs import REF
from pipeline_contracts.origins import normalize_origin
from tests.control_api.schemas.document_changes import change_somewhere
from tests.control_api.schemas.validation import faults, parse, validator

_BINDINGS = {
    "a_name": "Shop",
    "a_type": "staging",
    "a_state": "running",
    "a_branch": "main",
    "an_hour": "09",
    "a_day": "mon",
    "a_zone": "Europe/Oslo",
    "a_duration": "30m",
    "a_cron": "0 3 * * *",
    "an_origin": "shop.example",
    "a_path": "/welcome",
    "a_secret": "line one\nline two",
}
_NAMED = re.compile(r"(?<!\$)\$\{([a-z_]+)\}")


def _read(document: Any) -> ConfigurationDocument:
    text = json.dumps(document, ensure_ascii=False)
    named = {name: _BINDINGS[name] for name in _NAMED.findall(text) if name in _BINDINGS}
    return read_configuration(text, named, lambda value: value)


def _optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


_printable = st.characters(codec="utf-8").filter(str.isprintable)
_names = st.text(_printable, min_size=1, max_size=20).filter(lambda name: name.strip() and "${" not in name)
_keys = st.text(_printable, min_size=1, max_size=20).filter(lambda name: name == name.strip())
_slugs = st.from_regex("[a-z0-9]{1,9}(-[a-z][a-z0-9]{0,9}){1,2}", fullmatch=True)
_zones = st.sampled_from(["UTC", "Europe/Oslo", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "${a_zone}"])
_durations = st.sampled_from(
    ["1s", "90s", "30m", "2h", "1d", "366d", "007m", "${a_duration}", "1${a_duration}"]
)
_times = st.sampled_from(["00:00", "09:30", "23:59", "${an_hour}:15"])
_days = st.sampled_from(["mon", "tue", "wed", "thu", "fri", "sat", "sun", "${a_day}"])
_windows = st.fixed_dictionaries(
    {"days": st.lists(_days, min_size=1, max_size=7), "from": _times, "to": _times},
    optional={"timezone": _zones},
)
_common = {
    "timezone": _zones,
    "grace": _durations | st.just("0s"),
    "max_runtime": _durations,
    "failures_before_down": st.integers(1, 1000),
    "paused": st.booleans(),
}
_heartbeats = (
    st.none()
    | _optional(**_common, period=_durations)
    | _optional(
        **_common,
        cron=st.sampled_from(["0 3 * * *", " */5 8-18 * jan,mar MON-FRI ", "0 0 L * *", "${a_cron}"]),
    )
)
# Other characters need escapes that JSON and YAML do not share.
_in_yaml = st.characters(codec="utf-8", exclude_categories=["Cc"], exclude_characters="\ufeff\ufffe\uffff${")
_values = st.one_of(
    st.text(_in_yaml | st.sampled_from("\n\t")),
    st.sampled_from(["", "$5", "$${x}", "${a_secret}", "a ${a_secret} b ${a_name}", "$ {x}", "}${a_name}{"]),
    st.just({"keep": True}),
)
_severities = st.sampled_from(["info", "warning", "critical"])
_limits = st.integers(-1000, 10**15) | st.floats(-1e15, 1e15)
_thresholds = st.none() | _optional(
    kind=st.sampled_from(["queue.wait", "service.latency", "metric.value"]),
    target=st.sampled_from(["checkout", "orders placed", " a "]),
    service=st.none() | st.just("checkout"),
    aggregation=st.sampled_from(["avg", "min", "max", "sum", "last"]),
    direction=st.sampled_from(["above", "below"]),
    threshold=_limits,
    recovery=_limits,
    window=st.sampled_from(["1m", "5m", "1h", "90s"]),
    pending=st.sampled_from(["0s", "90s", "1d"]),
    severity=_severities,
    enabled=st.booleans(),
)
_rules = st.none() | _optional(
    environment=st.none() | _slugs,
    kinds=st.none()
    | st.lists(
        st.sampled_from(["heartbeat", "deployment.failed", "metric.value", "platform"]),
        min_size=1,
        unique=True,
    ),
    min_severity=_severities,
    channels=st.none() | st.lists(st.sampled_from(["ops", "Team A", "ø"]), unique=True),
    people=st.none() | st.lists(st.sampled_from(["ada@shop.example", "ops@shop.example"]), unique=True),
    reminders=st.booleans(),
    enabled=st.booleans(),
)
_environments = st.none() | _optional(
    name=_names | st.sampled_from([" Shop ", "${a_name} 2"]),
    type=st.sampled_from(["development", "staging", "production", "${a_type}"]),
    order=st.integers(0, 1000),
    branch=st.none() | st.sampled_from(["main", "feature/x.y", "ø", "x" * 200, "${a_branch}-2", "a$b"]),
    replicas=st.integers(1, 20),
    state=st.sampled_from(["running", "hibernated", "${a_state}"]),
    locked=st.booleans(),
    window=st.none() | _windows,
    approval=st.none() | _optional(deploys=st.booleans(), variables=st.booleans()),
    wake_on_request=st.booleans(),
    variables=st.none()
    | st.dictionaries(st.from_regex("[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True), _values, max_size=3),
    heartbeats=st.none() | st.dictionaries(_keys, _heartbeats, max_size=2),
    queues=st.none() | st.dictionaries(_keys, st.none() | st.just({}), max_size=2),
    thresholds=st.none() | st.dictionaries(_keys, _thresholds, max_size=2),
)
_origins = st.sampled_from(
    ["https://shop.example", "shop.example", "HTTP://LOCALHOST:8080/", "https://*.shop.example", "http://[::1]:3000",
     "https://blåbær.example", "https://www.a_b.shop-1.example:8443", "https://${an_origin}", " https://a.example "]
)  # fmt: skip


def _registered(origin: str) -> str:
    return normalize_origin(origin.replace("${an_origin}", _BINDINGS["an_origin"]))


_events = st.sampled_from(["purchase", " Web Vitals ", "ø", "${a_name}"])
_paths = st.sampled_from(["/", "/a b", " /ø?x=1 ", "${a_path}", "/x${a_name}"])
_goal = st.one_of(
    st.fixed_dictionaries({"name": _names, "event": _events}),
    st.fixed_dictionaries({"name": _names, "path": _paths}),
)
_sites = st.none() | _optional(
    domains=st.lists(_origins, min_size=1, max_size=4, unique_by=_registered),
    timezone=_zones,
    goals=st.none() | st.lists(_goal, max_size=3, unique_by=lambda goal: goal["name"].strip()),
)
_deleted = st.sampled_from(
    ["environments.gone", "environments.gone2.variables.A", 'environments.gone-3.heartbeats["weekly report"]',
     "environments.gone2.queues.default", 'sites["gone.example"]', 'sites.gone.goals["Sign \\"up\\""]']
)  # fmt: skip
DOCUMENTS = st.fixed_dictionaries(
    {"version": st.just(2)},
    optional={
        "project": st.none() | _optional(name=_names | st.just("The ${a_name}")),
        "environments": st.none() | st.dictionaries(_slugs, _environments, max_size=2),
        "sites": st.none() | st.dictionaries(_keys, _sites, max_size=2),
        "notifications": st.none() | _optional(rules=st.none() | st.dictionaries(_keys, _rules, max_size=2)),
        "delete": st.none() | st.lists(_deleted, max_size=3, unique=True),
    },
)

_VALUES = [
    None, True, False, 0, 1, 2, 20, 21, 1000, 1001, -1, 1.5, "", " ", "x", "x" * 100, "x" * 101, "x" * 200,
    "x" * 201, "a\nb", "a\tb", "a\0b", "staging", "preview", "running", "stopped", "main", "a..b", "-a",
    "09:00", "9:00", "24:00", "mon", "Mon", "UTC", "5m", "5", "m", "1h30m", "5 m", "0 3 * * *", "0 3 * *", "/x",
    "x y", "shop.example", "https://x/y", "ftp://x", "https://u@x", "https://*.x", "https://x:", "https://-x",
    "https://a..b", "Engagement", "Web Vital", "${", "a ${1} b", "${not-a-name}", "$${x}", "$$${x}",
    "environments.gone", "environments", "project", "environments.gone.name", "sites.gone.x",
    "sites.gone.goals.Signup", "queue.wait", "heartbeat", "avg", "below", "critical", 0.5, 1e15, 1e16, ["heartbeat"],
    ["heartbeat", "heartbeat"], ["ops"], {"rules": {"a": {}}}, {"a": {"kinds": ["queue"]}}, [], ["x"], ["mon"],
    ["mon"] * 8, ["x", "x"], [None], {}, {"x": "y"}, {"keep": True},
    {"keep": False}, {"keep": "true"}, {"name": "x"}, {"name": "x", "event": "y"},
    {"name": "x", "event": "y", "path": "/z"}, {"name": "${a_name}", "event": "y"}, {"period": "5m"},
    {"period": "5m", "cron": "0 3 * * *"}, {"cron": None}, {"days": ["mon"], "from": "09:00", "to": "10:00"},
    {"days": ["mon"], "from": "09:00"}, {"1": {}}, {"A": {}}, {" a": {}}, {"a": {"type": "staging"}},
    {"domains": ["https://x"]}, [{"name": "x", "event": "y"}], [{"name": "x"}],
]  # fmt: skip


def _in_environment(lines: str) -> str:
    return f"version: 2\nenvironments:\n  production:\n    {lines}\n"


# Rules that a schema cannot express.
_BEYOND = (
    "is no time zone",
    "is not a time zone",
    "is no cron expression",
    "is not a cron expression",
    "never comes",
    "A period lasts from",
    "The window is",
    "The pending time is",
    "The grace time is",
    "The longest run time is",
    "is not an origin",
    "is no host name",
    "is in the list already",
    "is already the name of another goal",
    "is also described",
    "cannot be the address of a resource",
    "is already named on line",
)


_REFUSED = {
    "a list": "[]",
    "no version": "project: {name: Shop}",
    "version 1": "version: 1",
    "a version as text": "version: '2'",
    "an unknown key": "version: 2\nenvironment: {}",
    "a nameless project": "version: 2\nproject: {name: ''}",
    "a blank name": "version: 2\nproject: {name: '  '}",
    "a number as name": "version: 2\nproject: {name: 2}",
    "a key that is not a slug": "version: 2\nenvironments: {Staging: {}}",
    "a key of digits": "version: 2\nenvironments: {'7': {}}",
    "a preview": _in_environment("type: preview"),
    "an unknown setting": _in_environment("replica: 2"),
    "an order below 0": _in_environment("order: -1"),
    "an order over 1000": _in_environment("order: 1001"),
    "no replicas": _in_environment("replicas: 0"),
    "replicas as text": _in_environment("replicas: '2'"),
    "a binding as replicas": _in_environment("replicas: '${a_duration}'"),
    "another state": _in_environment("state: stopped"),
    "yes": _in_environment("locked: yes"),
    "a branch": _in_environment("branch: a..b"),
    "a window without an end": _in_environment("window: {days: [mon], from: '09:00'}"),
    "a window without days": _in_environment("window: {days: [], from: '09:00', to: '10:00'}"),
    "a window of another day": _in_environment("window: {days: [monday], from: '09:00', to: '10:00'}"),
    "a window at 24:00": _in_environment("window: {days: [mon], from: '09:00', to: '24:00'}"),
    "an unknown approval": _in_environment("approval: {deployments: true}"),
    "the name of a variable": _in_environment("variables: {1A: x}"),
    "a number as variable": _in_environment("variables: {A: 1}"),
    "nothing as variable": _in_environment("variables: {A: }"),
    "a variable that is not kept": _in_environment("variables: {A: {keep: false}}"),
    "NUL in a variable": _in_environment('variables: {A: "a\\0b"}'),
    "text that begins like a binding": _in_environment("variables: {A: '${a b}'}"),
    "cron and period": _in_environment("heartbeats: {a: {cron: '0 3 * * *', period: 1h}}"),
    "four fields of cron": _in_environment("heartbeats: {a: {cron: '0 3 * *'}}"),
    "a duration without a unit": _in_environment("heartbeats: {a: {period: 300}}"),
    "a duration of two units": _in_environment("heartbeats: {a: {grace: 1h30m}}"),
    "no failures": _in_environment("heartbeats: {a: {failures_before_down: 0}}"),
    "a name with blanks around": _in_environment("heartbeats: {' a': {period: 1h}}"),
    "another kind of threshold": _in_environment("thresholds: {a: {kind: queue.length}}"),
    "a threshold as text": _in_environment("thresholds: {a: {threshold: '1'}}"),
    "an infinite threshold": _in_environment("thresholds: {a: {threshold: .inf}}"),
    "a binding in a threshold": _in_environment("thresholds: {a: {target: '${a_name}'}}"),
    "a binding in a rule": "version: 2\nnotifications: {rules: {a: {people: ['${a_name}']}}}",
    "another kind of event": "version: 2\nnotifications: {rules: {a: {kinds: [heartbeats]}}}",
    "no kind of event": "version: 2\nnotifications: {rules: {a: {kinds: []}}}",
    "a kind twice": "version: 2\nnotifications: {rules: {a: {kinds: [queue, queue]}}}",
    "channels that are not a list": "version: 2\nnotifications: {rules: {a: {channels: ops}}}",
    "a channel of the document": "version: 2\nnotifications: {channels: {ops: {type: slack}}}",
    "an environment that is not a slug": "version: 2\nnotifications: {rules: {a: {environment: Production}}}",
    "a queue with a setting": _in_environment("queues: {a: {limit: 1}}"),
    "no domains": "version: 2\nsites: {www: {domains: []}}",
    "a page as domain": "version: 2\nsites: {www: {domains: ['https://shop.example/cart']}}",
    "a domain twice": "version: 2\nsites: {www: {domains: [a.example, a.example]}}",
    "a goal without a target": "version: 2\nsites: {www: {goals: [{name: a}]}}",
    "a goal of two targets": "version: 2\nsites: {www: {goals: [{name: a, event: b, path: /c}]}}",
    "a goal without a name": "version: 2\nsites: {www: {goals: [{event: b}]}}",
    "a goal that matches every path": "version: 2\nsites: {www: {goals: [{name: a, event: Engagement}]}}",
    "a path without /": "version: 2\nsites: {www: {goals: [{name: a, path: welcome}]}}",
    "a goal whose name is bound": "version: 2\nsites: {www: {goals: [{name: '${a_name}', event: b}]}}",
    "goals as a mapping": "version: 2\nsites: {www: {goals: {Signup: {path: /welcome}}}}",
    "the project deleted": "version: 2\ndelete: [project]",
    "a setting deleted": "version: 2\ndelete: [environments.staging.branch]",
    "a deleted address that is bound": "version: 2\ndelete: ['environments.${a_name}']",
    "deleted by name": "version: 2\ndelete: {environments: [staging]}",
}

_ONLY_THE_READER = {
    "a whole fraction": _in_environment("replicas: 2.0"),
    "a time zone": "version: 2\nsites: {www: {timezone: Europe/Olso}}",
    "a cron expression that never occurs": _in_environment("heartbeats: {a: {cron: '0 0 30 2 *'}}"),
    "a long period": _in_environment("heartbeats: {a: {period: 367d}}"),
    "a grace time of years": _in_environment("heartbeats: {a: {grace: 9999999h}}"),
    "a port beyond all": "version: 2\nsites: {www: {domains: ['https://a.example:99999']}}",
    "a domain in two ways": "version: 2\nsites: {www: {domains: [a.example, 'https://A.example']}}",
    "two goals of one name": "version: 2\nsites: {www: {goals: [{name: a, event: b}, {name: a, event: c}]}}",
    "wanted and deleted": "version: 2\nenvironments: {staging: {}}\ndelete: [environments.staging]",
    "deleted in two ways": "version: 2\ndelete: [environments.staging, 'environments[\"staging\"]']",
    "a binding with an invalid value": "version: 2\nproject: {name: '${a_secret}'}",
}
"""In addition to texts that are not plain YAML, missing or unused bindings, and limits of the whole document."""


def _text_faults(text: str) -> DocumentFault:
    with pytest.raises(DocumentFault) as refused:
        read_configuration(text, _BINDINGS, lambda value: value)
    return refused.value


@pytest.mark.parametrize("text", _REFUSED.values(), ids=_REFUSED.keys())
def test_schema_and_reader_refuse(text: str) -> None:
    assert _text_faults(text).faults
    assert faults(CONFIGURATION, parse(text))


@pytest.mark.parametrize("text", _ONLY_THE_READER.values(), ids=_ONLY_THE_READER.keys())
def test_only_the_reader_refuses(text: str) -> None:
    assert _text_faults(text).faults
    assert not faults(CONFIGURATION, parse(text))


def test_branch_pattern_matches_git() -> None:
    branch = validator(CONFIGURATION).schema["definitions"]["environment"]["properties"]["branch"]
    assert branch["pattern"].startswith(f"^{REF.pattern}$|")


def _faults_of(document: Any) -> list[str]:
    try:
        _read(document)
    except DocumentFault as error:
        return [fault.message for fault in error.faults]
    return []


@given(DOCUMENTS)
def test_schema_and_reader_accept_valid_documents(document: Any) -> None:
    _read(document)
    assert not faults(CONFIGURATION, document)


@given(DOCUMENTS, st.data())
def test_schema_and_reader_agree_on_mutated_documents(document: Any, data: st.DataObject) -> None:
    changed = change_somewhere(copy.deepcopy(document), data, _VALUES)
    found, of_reader = faults(CONFIGURATION, changed), _faults_of(changed)
    if found:
        assert of_reader, found
    else:
        # Only the reader reports the other faults.
        assert all(re.search("|".join(_BEYOND), told, re.IGNORECASE) for told in of_reader), of_reader
