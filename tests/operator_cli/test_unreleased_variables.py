"""`pharos config apply` says which environments run with other variables until their next deploy."""

from typing import Any

from operator_cli.configuration_apply import changed_variables


def _operation(verb: str, resource: str, *fields: str) -> dict[str, Any]:
    return {"action": verb, "resource": resource, "changes": [{"field": field} for field in fields]}


def test_environments_whose_variables_were_changed() -> None:
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
    assert changed_variables(application) == ["shop/production", "shop/7a"]
