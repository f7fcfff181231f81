"""A project as a document: as a person would write it, and without anything that a plan would change."""

from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from control_domain.configurations.addresses import PROJECT, Address, write_address
from control_domain.configurations.documents.read_document import read_configuration
from control_domain.configurations.documents.write_document import write_document
from control_domain.configurations.plan import make_plan
from control_domain.configurations.resources import FIELDS, CurrentResource, ProjectState, Secret, Value
from control_domain.documents.strict_yaml import MAX_CHARACTERS, Node, read_yaml
from tests.support.examples import EXAMPLES
from tests.support.random_configurations import HOSTILE, LINEAGE, digest, kind_of, states

PRODUCTION: Address = ("environments", "production")


def _state(*resources: tuple[Address, dict[str, Value]], **values: Any) -> ProjectState:
    """Return the state of a project "Shop", with defaults for omitted fields."""
    presents = [
        CurrentResource(address, {**FIELDS[kind_of(address)], **fields})
        for address, fields in ((PROJECT, {"name": "Shop"}), *resources)
    ]
    return ProjectState(LINEAGE, 0, {one.address: one for one in presents}, **values)


def _body(state: ProjectState) -> str:
    """Return the document without the comment at the top."""
    lines = write_document(state).splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("#"))


def _plain(node: Node) -> Any:
    if isinstance(node.value, dict):
        return {key: _plain(one) for key, one in node.value.items()}
    return [_plain(one) for one in node.value] if isinstance(node.value, tuple) else node.value


SHOP = _state(
    (("sites", "www"), {
        "timezone": "Europe/Oslo", "domains": ["https://shop.example"], "goals.Signup": {"path": "/welcome"},
        "goals.Purchase": {"event": "purchase"}}),
    (("sites", "many"), {"domains": [f"https://{name * 9}.example" for name in "abcdefgh"]}),
    ((*PRODUCTION, "queues", "default"), {}),
    ((*PRODUCTION, "heartbeats", "nightly-backup"), {
        "cron": "0 3 * * *", "timezone": "Europe/Oslo", "grace": "30m", "max_runtime": "2h"}),
    ((*PRODUCTION, "heartbeats", "hourly"), {"period": "1h", "failures_before_down": 3, "paused": True}),
    (PRODUCTION, {
        "variables.DATABASE_URL": Secret("d"), "variables.APP_ENV": Secret("a"), "name": "Production",
        "type": "production", "order": 3, "branch": "main", "replicas": 2, "state": "hibernated", "locked": True,
        "window": {"days": ["mon", "tue"], "from": "09:00", "to": "16:00", "timezone": "Europe/Oslo"},
        "approval.deploys": True, "approval.variables": True, "wake_on_request": True}),
    (("environments", "a-last"), {"name": "Last", "type": "production", "order": 4, "approval.variables": True}),
    (("environments", "z-first"), {"name": "First", "type": "development", "order": 0}),
)  # fmt: skip
SHOP_BODY = """\
version: 2
project: {name: Shop}
environments:
  z-first:
    name: First
    type: development
    order: 0
  production:
    name: Production
    type: production
    order: 3
    branch: main
    replicas: 2
    state: hibernated
    locked: true
    window: {days: [mon, tue], from: "09:00", to: "16:00", timezone: Europe/Oslo}
    approval: {deploys: true, variables: true}
    wake_on_request: true
    variables:
      APP_ENV: {keep: true}
      DATABASE_URL: {keep: true}
    heartbeats:
      hourly: {period: 1h, failures_before_down: 3, paused: true}
      nightly-backup: {cron: "0 3 * * *", timezone: Europe/Oslo, grace: 30m, max_runtime: 2h}
    queues:
      default: {}
  a-last:
    name: Last
    type: production
    order: 4
    approval: {variables: true}
sites:
  many:
    domains:
      - "https://aaaaaaaaa.example"
      - "https://bbbbbbbbb.example"
      - "https://ccccccccc.example"
      - "https://ddddddddd.example"
      - "https://eeeeeeeee.example"
      - "https://fffffffff.example"
      - "https://ggggggggg.example"
      - "https://hhhhhhhhh.example"
  www:
    domains: ["https://shop.example"]
    timezone: Europe/Oslo
    goals:
      - {name: Purchase, event: purchase}
      - {name: Signup, path: /welcome}
"""


def test_a_document_reads_as_if_written_by_a_person() -> None:
    assert _body(SHOP) == SHOP_BODY


def test_a_project_with_nothing_in_it() -> None:
    assert _body(_state()) == "version: 2\nproject: {name: Shop}\n"


def test_the_header_explains_the_document_and_names_waiting_variables() -> None:
    head = write_document(SHOP).removesuffix(SHOP_BODY)
    assert all(line.startswith("#") for line in head.splitlines())
    for result in ("{keep: true}", "${", "$${", "delete:", "review"):
        assert result in head
    waiting = replace(SHOP, awaiting_approval=frozenset({PRODUCTION}))
    assert write_document(waiting).removesuffix(SHOP_BODY).removeprefix(head) == (
        "# The variables of environments.production are those that wait for a second person's approval.\n"
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_every_text_survives_writing_and_reading(text: str) -> None:
    """This holds for readers of YAML 1.1 as well."""
    state = _state(
        (PRODUCTION, {"name": text, "type": "staging", "order": 1, "branch": text}),
        ((*PRODUCTION, "queues", text), {}),
        ((*PRODUCTION, "heartbeats", text), {"cron": text}),
        (("sites", text), {"domains": [text, text], write_address(("goals", text)): {"event": text}}),
    )
    result = text.replace("${", "$${")
    expected = {
        "version": 2,
        "project": {"name": "Shop"},
        "environments": {
            "production": {
                "name": result,
                "type": "staging",
                "order": 1,
                "branch": result,
                "heartbeats": {text: {"cron": result}},
                "queues": {text: {}},
            }
        },
        "sites": {text: {"domains": [result, result], "goals": [{"name": result, "event": result}]}},
    }
    written = write_document(state)
    assert _plain(read_yaml(written)) == expected
    assert yaml.safe_load(written) == expected


def test_documents_over_the_limit_are_written() -> None:
    names = [f"queue-of-a-rather-long-name-{number}" for number in range(2000)]
    state = _state(
        (PRODUCTION, {"name": "Production", "type": "production", "order": 3}),
        *(((*PRODUCTION, "queues", name), {}) for name in names),
    )
    written = write_document(state)
    assert len(written) > MAX_CHARACTERS
    assert yaml.safe_load(written)["environments"]["production"]["queues"] == {name: {} for name in names}


@settings(max_examples=2 * EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(states())
def test_a_written_document_is_complete_and_changes_nothing(state: ProjectState) -> None:
    written = write_document(state)
    plan = make_plan(read_configuration(written, {}, digest), state)
    assert (plan.actions, plan.unmanaged) == ([], [])
    assert write_document(replace(state, resources=dict(reversed(state.resources.items())))) == written


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(states())
def test_a_written_document_has_no_values_of_variables(state: ProjectState) -> None:
    secret = Secret("0123456789abcdef" * 2, "the value of a variable")
    resources = {}
    for address, present in state.resources.items():
        fields = {
            field: secret if isinstance(value, Secret) else value for field, value in present.fields.items()
        }
        resources[address] = CurrentResource(address, fields)
    written = write_document(replace(state, resources=resources))
    assert secret.digest not in written
    assert "the value" not in written
