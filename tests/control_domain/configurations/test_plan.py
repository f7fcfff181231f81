"""The changes that a document plans in a project: hand-written cases, and random documents and projects."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from control_domain.configurations.addresses import PROJECT, RULES, Address, write_address
from control_domain.configurations.documents.read_document import read_configuration
from control_domain.configurations.plan import Plan, make_plan
from control_domain.configurations.resources import (
    FIELDS,
    MASK,
    ConfigurationDocument,
    CurrentResource,
    DesiredResource,
    Keep,
    ProjectState,
    Secret,
    Value,
)
from control_domain.documents.faults import DocumentFault
from tests.support.applied_configuration import apply_in_memory
from tests.support.examples import EXAMPLES
from tests.support.random_configurations import (
    LINEAGE,
    digest,
    documents_for,
    kind_of,
    shuffle_tree,
    states,
    write_tree,
)

DEVELOPMENT, STAGING, PRODUCTION = (
    ("environments", slug) for slug in ("development", "staging", "production")
)
NIGHTLY = (*PRODUCTION, "heartbeats", "nightly backup")
DEFAULT = (*PRODUCTION, "queues", "default")
SITE = ("sites", "www")
SLOW = (*PRODUCTION, "thresholds", "slow")
ON_CALL = (*RULES, "on-call")
WINDOW = {"days": ["mon"], "from": "09:00", "to": "16:00", "timezone": "UTC"}
Wishes = Mapping[Address, Mapping[str, Value]]


def _present(address: Address, **fields: Value) -> CurrentResource:
    return CurrentResource(address, {**FIELDS[kind_of(address)], **fields})


def _secret(value: str) -> Secret:
    return Secret(digest(value), value)


_PRESENT = (
    _present(SITE, domains=["https://shop.example"], **{"goals.Signup": {"path": "/welcome"}}),
    _present(DEFAULT),
    _present(NIGHTLY, cron="0 3 * * *"),
    _present(
        PRODUCTION,
        name="Production",
        type="production",
        order=3,
        replicas=2,
        **{"variables.APP_ENV": Secret(digest("production")), "variables.OLD": Secret(digest("old"))},
    ),
    _present(STAGING, name="Staging", type="staging", order=2),
    _present(DEVELOPMENT, name="Development", type="development", order=1),
    _present(PROJECT, name="Shop"),
)
STATE = ProjectState(
    LINEAGE,
    4,
    {one.address: one for one in _PRESENT},
    previews=frozenset({"pr-7"}),
    channels=frozenset({"ops-slack"}),
    people=frozenset({"ada@shop.example"}),
    other_rules=frozenset({"everything"}),
)
ALL: Wishes = {one.address: {} for one in _PRESENT}


def _plan(
    wanted: Wishes | None = None,
    deleted: Iterable[Address] = (),
    bound: Iterable[str] = (),
    state: ProjectState = STATE,
) -> Plan:
    """Return the plan of a document with these resources, one on each line. The `bound` fields are bound in each."""
    resources = [
        DesiredResource(address, fields, line, frozenset(bound).intersection(fields))
        for line, (address, fields) in enumerate((wanted or {}).items(), 1)
    ]
    return make_plan(ConfigurationDocument(resources, dict.fromkeys(deleted, 99)), state)


def _list_actions(plan: Plan) -> list[Any]:
    """Return the actions as lists like `["update", "environments.production", {"replicas": (2, 3)}]`."""
    return [
        [
            action["action"],
            action["resource"],
            {change["field"]: (change["from"], change["to"]) for change in action["changes"]},
        ]
        for action in plan.to_json()["actions"]
    ]


CHANGES: dict[str, tuple[Wishes, Iterable[Address], list[Any]]] = {
    "nothing": ({}, (), []),
    "everything unchanged": (ALL, (), []),
    "values as they are": ({PRODUCTION: {"replicas": 2, "window": None}, PROJECT: {"name": "Shop"}}, (), []),
    "the project's name": ({PROJECT: {"name": "Store"}}, (), [
        ["update", "project", {"name": ("Shop", "Store")}]]),
    "a setting": ({PRODUCTION: {"replicas": 3, "type": "production"}}, (), [
        ["update", "environments.production", {"replicas": (2, 3)}]]),
    "settings in their order": ({
        STAGING: {"window": WINDOW, "approval.deploys": True, "branch": "main", "name": "S"}}, (), [
        ["update", "environments.staging", {
            "name": ("Staging", "S"), "branch": (None, "main"), "window": (None, WINDOW),
            "approval.deploys": (False, True)}]]),
    "a cron instead of a period": ({NIGHTLY: {"cron": None, "period": "1h"}}, (), [
        ["update", 'environments.production.heartbeats["nightly backup"]', {
            "cron": ("0 3 * * *", None), "period": (None, "1h")}]]),
    "a new environment with its contents": ({
        ("environments", "qa", "queues", "jobs"): {},
        ("environments", "qa"): {"type": "staging", "replicas": 1, "branch": None}}, (), [
        ["create", "environments.qa", {"type": (None, "staging"), "replicas": (None, 1)}],
        ["create", "environments.qa.queues.jobs", {}]]),
    "a new heartbeat": ({
        PRODUCTION: {}, (*PRODUCTION, "heartbeats", "hourly"): {"cron": None, "period": "1h"}}, (), [
        ["create", "environments.production.heartbeats.hourly", {"period": (None, "1h")}]]),
    "a new site": ({
        ("sites", "docs.example"): {"domains": ["https://docs.example"], 'goals["Read it"]': {"path": "/"}}}, (), [
        ["create", 'sites["docs.example"]', {
            "domains": (None, ["https://docs.example"]), 'goals["Read it"]': (None, {"path": "/"})}]]),
    "a new threshold and a new rule": ({
        ON_CALL: {"channels": ["ops-slack"], "environment": "production"},
        SLOW: {"kind": "service.latency", "target": "web", "threshold": 0.5}}, (), [
        ["create", "environments.production.thresholds.slow", {
            "kind": (None, "service.latency"), "target": (None, "web"), "threshold": (None, 0.5)}],
        ["create", "notifications.rules.on-call", {
            "environment": (None, "production"), "channels": (None, ["ops-slack"])}]]),
    "goals": ({SITE: {"goals.Signup": {"event": "signup"}, "goals.Purchase": {"event": "purchase"}}}, (), [
        ["update", "sites.www", {
            "goals.Purchase": (None, {"event": "purchase"}),
            "goals.Signup": ({"path": "/welcome"}, {"event": "signup"})}]]),
    "a removed goal": ({SITE: {"timezone": "Europe/Oslo"}}, [(*SITE, "goals", "Signup")], [
        ["update", "sites.www", {"timezone": ("UTC", "Europe/Oslo"), "goals.Signup": ({"path": "/welcome"}, None)}]]),
    "a removed goal of a site that is not in the document": ({}, [(*SITE, "goals", "Signup")], [
        ["update", "sites.www", {"goals.Signup": ({"path": "/welcome"}, None)}]]),
    "a goal that was removed before": ({SITE: {}}, [(*SITE, "goals", "Purchase")], []),
    "variables": ({PRODUCTION: {
        "variables.APP_ENV": _secret("live"), "variables.NEW": _secret(""), "variables.OLD": Keep.KEEP}}, (), [
        ["update", "environments.production", {"variables.APP_ENV": (MASK, MASK), "variables.NEW": (None, MASK)}]]),
    "an unchanged variable": ({PRODUCTION: {"variables.APP_ENV": _secret("production")}}, (), []),
    "a removed variable": ({PRODUCTION: {}}, [(*PRODUCTION, "variables", "OLD")], [
        ["update", "environments.production", {"variables.OLD": (MASK, None)}]]),
    "a removed resource": ({}, [DEFAULT], [["delete", "environments.production.queues.default", {}]]),
    "a removed resource with its values": ({}, [NIGHTLY, SITE], [
        ["delete", "sites.www", {
            "domains": (["https://shop.example"], None), "timezone": ("UTC", None),
            "goals.Signup": ({"path": "/welcome"}, None)}],
        ["delete", 'environments.production.heartbeats["nightly backup"]', {
            "cron": ("0 3 * * *", None), "timezone": ("UTC", None), "grace": ("5m", None), "max_runtime": ("1h", None),
            "failures_before_down": (1, None), "paused": (False, None)}]]),
    "an environment removed with its contents": ({}, [DEFAULT, PRODUCTION, (*PRODUCTION, "variables", "OLD")], [
        ["delete", "environments.production", {
            "name": ("Production", None), "type": ("production", None), "order": (3, None), "replicas": (2, None),
            "state": ("running", None), "locked": (False, None), "approval.deploys": (False, None),
            "approval.variables": (False, None), "wake_on_request": (False, None),
            "variables.APP_ENV": (MASK, None), "variables.OLD": (MASK, None)}]]),
    "missing resources": ({}, [("environments", "gone"), ("sites", "gone"), (*STAGING, "variables", "GONE")], []),
}  # fmt: skip


@pytest.mark.parametrize(("wanted", "deleted", "result"), CHANGES.values(), ids=CHANGES.keys())
def test_changes_of_a_plan(wanted: Wishes, deleted: Iterable[Address], result: list[Any]) -> None:
    plan = _plan(wanted, deleted)
    assert _list_actions(plan) == result
    again = make_plan(
        ConfigurationDocument(
            [DesiredResource(*one, 1) for one in wanted.items()], dict.fromkeys(deleted, 1)
        ),
        apply_in_memory(STATE, plan),
    )
    assert again.actions == []


def test_creations_come_before_deletions_and_parents_before_members() -> None:
    qa = ("environments", "qa")
    wanted: Wishes = {
        ("sites", "b"): {"domains": ["https://b.example"]},
        ("sites", "a"): {"domains": ["https://a.example"]},
        PRODUCTION: {"replicas": 5, "order": 1},
        (*PRODUCTION, "queues", "z"): {},
        (*PRODUCTION, "heartbeats", "z"): {"period": "1h"},
        STAGING: {"replicas": 5},
        (*qa, "queues", "jobs"): {},
        qa: {"type": "production"},
        PROJECT: {"name": "Store"},
    }
    plan = _plan(wanted, [DEVELOPMENT, SITE, DEFAULT, NIGHTLY])
    assert [(action.verb, write_address(action.address)) for action in plan.actions] == [
        ("update", "project"),
        # Sorted by the desired order, not by the present one.
        ("update", "environments.production"),
        ("create", "environments.production.heartbeats.z"),
        ("create", "environments.production.queues.z"),
        ("update", "environments.staging"),
        ("create", "environments.qa"),
        ("create", "environments.qa.queues.jobs"),
        ("create", "sites.a"),
        ("create", "sites.b"),
        ("delete", "sites.www"),
        ("delete", "environments.production.queues.default"),
        ("delete", 'environments.production.heartbeats["nightly backup"]'),
        ("delete", "environments.development"),
    ]


UNMANAGED: dict[str, tuple[Wishes, Iterable[Address], list[str]]] = {
    "all resources that the document omits": ({}, (), [
        "environments.development", "environments.staging", "environments.production", "sites.www"]),
    "contents of an environment in the document": ({PRODUCTION: {}}, (), [
        "environments.development", "environments.staging", "environments.production.replicas",
        "environments.production.variables.APP_ENV", "environments.production.variables.OLD",
        'environments.production.heartbeats["nightly backup"]', "environments.production.queues.default", "sites.www"]),
    "settings other than the defaults": (ALL, (), [
        "environments.production.replicas", "environments.production.variables.APP_ENV",
        "environments.production.variables.OLD", "sites.www.goals.Signup"]),
    "without fields in the document": (
        {**ALL, PRODUCTION: {"replicas": 7, "variables.OLD": Keep.KEEP, "variables.APP_ENV": _secret("x")}}, (),
        ["sites.www.goals.Signup"]),
    "and without deleted resources": (
        {**{one: {} for one in ALL if one not in (DEFAULT, STAGING)}, PRODUCTION: {"replicas": 2}},
        [DEFAULT, STAGING, (*PRODUCTION, "variables", "OLD"), (*SITE, "goals", "Signup")],
        ["environments.production.variables.APP_ENV"]),
    "and a site of which the document only deletes a goal": (
        {}, [(*SITE, "goals", "Signup")],
        ["environments.development", "environments.staging", "environments.production"]),
    "and members of deleted resources": ({}, [PRODUCTION, SITE], ["environments.development", "environments.staging"]),
}  # fmt: skip


@pytest.mark.parametrize(("wanted", "deleted", "result"), UNMANAGED.values(), ids=UNMANAGED.keys())
def test_unmanaged_resources_and_fields(
    wanted: Wishes, deleted: Iterable[Address], result: list[str]
) -> None:
    assert _plan(wanted, deleted).unmanaged == result


def test_rules_are_removed_together_with_their_environment() -> None:
    """They are not listed as unmanaged, because they do not stay."""
    rules = [_present((*RULES, str(slug)), environment=slug) for slug in ("production", "staging", None)]
    state = replace(STATE, resources={**STATE.resources, **{rule.address: rule for rule in rules}})
    others = [address for address in ALL if address not in (PRODUCTION, NIGHTLY, DEFAULT)]
    plan = _plan({address: {} for address in others}, [PRODUCTION], state=state)
    assert plan.unmanaged[-2:] == ["notifications.rules.None", "notifications.rules.staging"]
    assert apply_in_memory(state, plan).resources.keys() == {*others, rules[1].address, rules[2].address}


def test_the_plan_has_the_shape_that_the_api_promises() -> None:
    state = replace(STATE, awaiting_approval=frozenset({PRODUCTION, DEVELOPMENT}))
    wanted: Wishes = {
        PRODUCTION: {"replicas": 3, "branch": "live", "variables.APP_ENV": _secret("live")},
        STAGING: {"name": "Stage", "branch": None},
        DEVELOPMENT: {},
    }
    deleted = [(*PRODUCTION, "variables", "OLD"), SITE]
    plan = _plan(wanted, deleted, ["name", "branch", "variables.APP_ENV"], state)
    assert plan.to_json() == {
        "fingerprint": state.fingerprint(),
        "summary": {"create": 0, "update": 2, "delete": 1},
        "actions": [
            {
                "action": "update",
                "resource": "environments.staging",
                "changes": [{"field": "name", "from": MASK, "to": MASK, "sensitive": True}],
            },
            {
                "action": "update",
                "resource": "environments.production",
                "changes": [
                    {"field": "branch", "from": None, "to": MASK, "sensitive": True},
                    {"field": "replicas", "from": 2, "to": 3},
                    {
                        "field": "variables.APP_ENV",
                        "from": MASK,
                        "to": MASK,
                        "sensitive": True,
                        "from_digest": digest("production")[:8],
                        "to_digest": digest("live")[:8],
                    },
                    {
                        "field": "variables.OLD",
                        "from": MASK,
                        "to": None,
                        "sensitive": True,
                        "from_digest": digest("old")[:8],
                    },
                ],
            },
            {
                "action": "delete",
                "resource": "sites.www",
                "changes": [
                    {"field": "domains", "from": ["https://shop.example"], "to": None},
                    {"field": "timezone", "from": "UTC", "to": None},
                    {"field": "goals.Signup", "from": {"path": "/welcome"}, "to": None},
                ],
            },
        ],
        "unmanaged": [
            'environments.production.heartbeats["nightly backup"]',
            "environments.production.queues.default",
        ],
        "awaiting_approval": ["environments.development.variables", "environments.production.variables"],
    }


_NEW = ("environments", "qa")
FAULTS: dict[str, tuple[Wishes, Iterable[Address], list[str]]] = {
    "an environment without a type": ({PROJECT: {}, _NEW: {"replicas": 1}}, (), [
        "line 2: environments.qa: needs type, because there is no such environment yet"]),
    "a heartbeat without a schedule": ({PRODUCTION: {}, (*PRODUCTION, "heartbeats", "a b"): {"timezone": "UTC"}}, (), [
        'line 2: environments.production.heartbeats["a b"]: needs cron or period, because there is no such heartbeat '
        "yet"]),
    "a site without domains": ({("sites", "docs"): {}}, (), [
        "line 1: sites.docs: needs domains, because there is no such site yet"]),
    "a variable to keep that does not exist": ({PRODUCTION: {"variables.NEW": Keep.KEEP}}, (), [
        "line 1: environments.production.variables.NEW: has no value yet that could be kept: give it a value"]),
    "a variable to keep of a missing environment": ({_NEW: {"type": "staging", "variables.OLD": Keep.KEEP}}, (), [
        "line 1: environments.qa.variables.OLD: has no value yet that could be kept: give it a value"]),
    "a preview's slug": ({("environments", "pr-7"): {"type": "staging"}}, (), [
        "line 1: environments.pr-7: is the slug of a preview: give the environment another one"]),
    "a deleted preview": ({}, [("environments", "pr-7"), ("environments", "pr-7", "queues", "jobs")], [
        "line 99: environments.pr-7: is a preview, which is removed together with its branch: remove "
            "it from the document",
        "line 99: environments.pr-7.queues.jobs: is a preview, which is removed together with its "
            "branch: remove it from the document"]),
    "a rule for nobody": ({ON_CALL: {}, (*RULES, "b"): {"channels": []}}, (), [
        "line 1: notifications.rules.on-call: needs channels or people, because there is no such rule yet",
        "line 2: notifications.rules.b: notifies nobody: name channels or people, or disable it with enabled: false"]),
    "missing recipients and a missing environment": ({ON_CALL: {
        "channels": ["ops", "ops-slack"], "people": ["bob@shop.example"], "environment": "qa"}}, (), [
        "line 1: notifications.rules.on-call.channels: has 'ops', which is not a channel of the account",
        "line 1: notifications.rules.on-call.people: has 'bob@shop.example', which is not a person "
            "who may read the project; "
        "do you mean ada@shop.example?",
        "line 1: notifications.rules.on-call.environment: has 'qa', which is not an environment of the project"]),
    "a rule of a deleted environment": ({
        ON_CALL: {"channels": ["ops-slack"], "environment": "staging"}}, [STAGING], [
        "line 1: notifications.rules.on-call.environment: has 'staging', which is not an environment of the project"]),
    "the name of another rule": ({(*RULES, "everything"): {"channels": ["ops-slack"]}}, (), [
        "line 1: notifications.rules.everything: is the name of a rule outside of this project: choose another name"]),
    "a threshold that cannot recover": ({SLOW: {"kind": "service.latency", "target": "web", "threshold": 5,
        "recovery": 6, "service": "web"}}, (), [
        "line 1: environments.production.thresholds.slow.service: is only for metric.value: `target` names the service "
        "or the queue",
        "line 1: environments.production.thresholds.slow.recovery: must not be above the threshold: the incident could "
        "not end"]),
    "a threshold on nothing": ({SLOW: {}}, (), [
        f"line 1: environments.production.thresholds.slow: needs {name}, because there is no such threshold yet"
        for name in ("kind", "target", "threshold")]),
    "all faults together": ({_NEW: {}, PROJECT: {}, ("sites", "docs"): {}}, (), [
        "line 1: environments.qa: needs type, because there is no such environment yet",
        "line 3: sites.docs: needs domains, because there is no such site yet"]),
}  # fmt: skip


@pytest.mark.parametrize(("wanted", "deleted", "result"), FAULTS.values(), ids=FAULTS.keys())
def test_faults_that_only_this_project_has(
    wanted: Wishes, deleted: Iterable[Address], result: list[str]
) -> None:
    with pytest.raises(DocumentFault) as refused:
        _plan(wanted, deleted)
    assert [str(fault) for fault in refused.value.faults] == result


def _bytes(plan: Plan) -> bytes:
    return json.dumps(plan.to_json()).encode()


_seeds = st.integers(0, 2**32)
# The random examples are large, and machines may be slow.
_SETTINGS = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


@_SETTINGS
@given(st.data(), _seeds)
def test_the_order_of_resources_does_not_change_the_plan(data: st.DataObject, seed: int) -> None:
    state = data.draw(states())
    document = data.draw(documents_for(state)).document
    random = Random(seed)
    resources = [replace(one, fields=_shuffle(one.fields, random)) for one in document.resources]
    random.shuffle(resources)
    turned = ConfigurationDocument(resources, _shuffle(document.deleted, random))
    fields = {
        address: CurrentResource(address, _shuffle(one.fields, random))
        for address, one in state.resources.items()
    }
    other = replace(state, resources=_shuffle(fields, random))
    plan = make_plan(document, state)
    assert _bytes(plan) == _bytes(make_plan(document, state)) == _bytes(make_plan(turned, other))


def _shuffle(members: Mapping[Any, Any], random: Random) -> dict[Any, Any]:
    keys = list(members)
    random.shuffle(keys)
    return {key: members[key] for key in keys}


@_SETTINGS
@given(st.data(), _seeds)
def test_the_order_of_keys_does_not_change_the_plan(data: st.DataObject, seed: int) -> None:
    state = data.draw(states())
    written = data.draw(documents_for(state))
    plans = [make_plan(written.document, state)]
    for text in (written.text, write_tree(shuffle_tree(written.tree, Random(seed)))):
        plans.append(make_plan(read_configuration(text, written.bindings, digest), state))
    assert len(set(map(_bytes, plans))) == 1


@_SETTINGS
@given(st.data())
def test_the_plan_of_an_applied_document_is_empty(data: st.DataObject) -> None:
    state = data.draw(states())
    document = data.draw(documents_for(state)).document
    plan = make_plan(document, state)
    after = apply_in_memory(state, plan)
    again = make_plan(document, after)
    assert again.actions == []
    # Resources that the document omits are unchanged.
    assert again.unmanaged == plan.unmanaged
    assert again.fingerprint != plan.fingerprint


MARK = "S3CR3T-"


def _mark(value: Any, number: int) -> Any:
    """Return the value with a unique text in it."""
    marked = f"{MARK}{number}"
    match value:
        case Secret():
            return Secret(digest(marked), marked)
        case str():
            return marked
        case list():
            return [marked, *value]
        case Mapping():
            return {key: _mark(member, number) for key, member in value.items()}
        case _:
            return value


@_SETTINGS
@given(st.data())
def test_no_secret_is_in_a_plan(data: st.DataObject) -> None:
    state = data.draw(states())
    document = data.draw(documents_for(state)).document
    resources = []
    for number, one in enumerate(document.resources):
        secrets = {field for field, value in one.fields.items() if isinstance(value, Secret)}
        # Without a valid type, an environment has no position in the order.
        marked = (secrets | one.bound) - {"type"}
        fields = {
            field: _mark(value, number) if field in marked else value for field, value in one.fields.items()
        }
        resources.append(replace(one, fields=fields))
    plan = make_plan(ConfigurationDocument(resources, document.deleted), state)
    result = _bytes(plan).decode()
    assert MARK not in result
    for action in plan.actions:
        for change in action.changes:
            for value in (change.before, change.after):
                assert not isinstance(value, Secret) or (change.is_masked and value.digest not in result)
