"""`pharos config apply` lists the environments whose changed variables are not live yet."""

from typing import Any

import pytest

from operator_cli.configuration import apply
from operator_cli.configuration.apply import list_changed_variables


def _operation(verb: str, resource: str, *fields: str) -> dict[str, Any]:
    return {"action": verb, "resource": resource, "changes": [{"field": field} for field in fields]}


def test_environments_with_changed_variables_are_listed() -> None:
    application = {
        "operations": [
            _operation("update", "environments.production", "replicas", "variables.URL"),
            _operation("update", 'environments["7a"]', 'variables["odd name"]'),
            _operation("update", "environments.staging", "replicas"),
            _operation("create", "environments.fresh", "variables.URL"),
            _operation("update", "environments.production.heartbeats.nightly", "cron"),
            _operation("update", "sites.www", "goals.variables"),
        ],
    }
    assert list_changed_variables("shop", application) == ["shop/production", "shop/7a"]


class _Api:
    """An API whose production environment has a waiting change of variables."""

    def list_once(self, *path: str) -> list[dict[str, Any]]:
        environments = [
            {"id": f"env_{slug}", "slug": slug, "name": slug} for slug in ("production", "staging")
        ]
        return [{"id": "prj_1", "slug": "shop", "name": "Shop", "environments": environments}]

    def get(self, *path: str) -> dict[str, Any]:
        return {"waiting": {"variable_changes": [3] if path[1] == "env_production" else []}}


def test_variables_that_wait_for_a_second_person_are_not_reported_as_changed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    api: Any = _Api()
    apply._show_changed_variables(api, ["shop/production", "shop/staging"])
    assert capsys.readouterr().out.splitlines() == [
        "shop/production: change 3 of its variables waits for a second person: `pharos approve variables 3`.",
        "shop/staging: changed variables. Not live until the next deploy: `pharos deploy shop/staging`.",
    ]
