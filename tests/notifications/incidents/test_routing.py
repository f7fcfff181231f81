"""The recipients of an incident, as a table of rules."""

import dataclasses
from typing import Any

import pytest

from notifications.incidents.routing import AccountRules, Recipient, Routed, Rule, default_rule, route

_SLACK, _OPS = Recipient("channel", 1), Recipient("person", 2)
_ALL = Rule(None, None, None, "info", [_SLACK], True)
_DOWN = Routed(10, 100, "staging", "heartbeat.down", "critical")


@pytest.mark.parametrize(
    ("rule", "routed", "hears"),
    [
        pytest.param({}, {}, True, id="on by default"),
        pytest.param({"project_id": 10}, {}, True, id="its project"),
        pytest.param({"project_id": 11}, {}, False, id="another project"),
        pytest.param({"project_id": 10, "environment_id": 101}, {}, False, id="another environment"),
        pytest.param({"project_id": 10}, {"project_id": None}, False, id="the platform has no project"),
        pytest.param({"min_severity": "critical"}, {}, True, id="severe enough"),
        pytest.param({"min_severity": "critical"}, {"severity": "warning"}, False, id="not severe enough"),
        pytest.param({"kinds": {"heartbeat"}}, {}, True, id="the family"),
        pytest.param({"kinds": {"heartbeat.late"}}, {}, False, id="another kind of the family"),
        pytest.param({"kinds": {"heartbeat.late"}}, {"kind": "heartbeat.late"}, True, id="the kind"),
        pytest.param({}, {"kind": "heartbeat.late"}, False, id="off by default"),
        pytest.param({}, {"kind": "deployment.succeeded"}, False, id="success is off"),
        pytest.param(
            {"kinds": {"deployment"}}, {"kind": "deployment.succeeded"}, True, id="success is named"
        ),
        pytest.param({}, {"kind": "exception.new"}, False, id="exceptions outside of production"),
        pytest.param(
            {}, {"kind": "exception.new", "environment_type": "production"}, True, id="in production"
        ),
        pytest.param({"kinds": {"exception"}}, {"kind": "exception.new"}, True, id="named for staging"),
    ],
)
def test_a_rule_matches(rule: dict[str, Any], routed: dict[str, Any], hears: bool) -> None:
    found = route(dataclasses.replace(_DOWN, **routed), AccountRules([dataclasses.replace(_ALL, **rule)]))
    assert (_SLACK in found) is hears


def test_recipient_of_several_rules_gets_one_message_and_any_reminders() -> None:
    rules = [
        dataclasses.replace(_ALL, reminders=False),
        dataclasses.replace(_ALL, recipients=[_SLACK, _OPS], reminders=True),
        dataclasses.replace(_ALL, recipients=[_OPS], reminders=False),
    ]
    assert route(_DOWN, AccountRules(rules)) == {_SLACK: True, _OPS: True}
    assert route(_DOWN, AccountRules(rules[:1])) == {_SLACK: False}
    assert route(_DOWN, AccountRules([])) == {}


@pytest.mark.parametrize(
    ("rules", "project", "hears"),
    [
        pytest.param([], 10, True, id="no rule"),
        pytest.param([{"project_id": 10}], 10, False, id="a rule of the project"),
        pytest.param([{"project_id": 10, "kinds": {"queue"}}], 10, False, id="whatever its kinds"),
        pytest.param([{"project_id": 11}], 10, True, id="a rule of another project"),
        pytest.param([{"project_id": 11}], None, True, id="a rule of a project, and the platform"),
        pytest.param([{}], 10, False, id="a rule of the account"),
        pytest.param([{"enabled": False}], 10, False, id="a disabled rule"),
        pytest.param(
            [{"enabled": False, "recipients": []}], 10, False, id="a disabled rule without recipients"
        ),
        pytest.param([{"recipients": []}], 10, True, id="a rule whose recipients were removed"),
    ],
)
def test_the_default_rule_is_for_projects_without_a_rule(
    rules: list[dict[str, Any]], project: int | None, hears: bool
) -> None:
    account = AccountRules([dataclasses.replace(_ALL, **rule) for rule in rules], default_rule([2]))
    assert (_OPS in route(dataclasses.replace(_DOWN, project_id=project), account)) is hears
