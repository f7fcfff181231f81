"""`pharos config apply` lists the environments whose changed variables are not live yet."""

import argparse
from typing import Any

import pytest

from operator_cli.configuration import apply
from operator_cli.configuration.apply import list_changed_variables


def _operation(verb: str, resource: str, *fields: str) -> dict[str, Any]:
    return {"action": verb, "resource": resource, "changes": [{"field": field} for field in fields]}


def test_environments_with_changed_variables_are_listed() -> None:
    application = {
        "project": {"slug": "shop"},
        "operations": [
            _operation("update", "environments.production", "replicas", "variables.URL"),
            _operation("update", 'environments["7a"]', 'variables["odd name"]'),
            _operation("update", "environments.staging", "replicas"),
            _operation("create", "environments.fresh", "variables.URL"),
            _operation("update", "environments.production.heartbeats.nightly", "cron"),
            _operation("update", "sites.www", "goals.variables"),
        ],
    }
    assert list_changed_variables(application) == ["shop/production", "shop/7a"]


def test_variables_that_wait_for_a_second_person_are_not_reported_as_changed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting = [{"id": 3, "project": "shop", "environment": "production"}]
    monkeypatch.setattr(apply, "request_action", lambda _, action: {"variables/waiting": waiting}[action])
    apply._show_changed_variables(argparse.Namespace(), ["shop/production", "shop/staging"])
    assert capsys.readouterr().out.splitlines() == [
        "shop/production: change 3 of its variables waits for a second person: "
        "`pharos approve variables 3 --by EMAIL`.",
        "shop/staging: changed variables. Not live until the next deploy: `pharos deploy shop/staging`.",
    ]
