"""The table of all routes of the control plane, with the scope and right that each needs."""

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from control_domain.accounts.roles import Right
from pipeline_contracts.credentials import CredentialKind
from pipeline_contracts.identifiers import receipt_name, seal_receipt
from tests.support.deploy_platform import RECEIPT_KEY, Tenant

_PARAMETER = re.compile("{([a-z]+)}")


@dataclass(frozen=True, slots=True)
class Row:
    """One route. `path` is the route's path without `/api`."""

    method: str
    path: str
    needs: str | CredentialKind
    """The scope of an API token, or the kind of key."""
    right: Right | None = None
    """The right that the person needs in the project."""
    body: Mapping[str, Any] | None = None
    status: int = 200

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def is_for_people(self) -> bool:
        """True if the route accepts API tokens."""
        return not isinstance(self.needs, CredentialKind)

    @property
    def parameters(self) -> list[str]:
        """The names of the path's parameters, in order."""
        return _PARAMETER.findall(self.path)

    def at(self, identity: object, **named: object) -> str:
        """Return the path with the parameters in `named`, and `identity` for the others."""
        return _PARAMETER.sub(lambda found: str(named.get(found[1], identity)), self.path)


_CONFIGURATION = "/v1/projects/{project}/configuration"
_OPERATION = f"{_CONFIGURATION}/applications/{{application}}/operations/{{operation}}"
_DOCUMENT = {"document": "version: 2\nproject: {name: Shop}\n", "bindings": {}}
_REPORT = {"deployment_id": "0190f3c2-7b5e-7a10-8c3d-2f4b6a8c0e1f", "version": "1"}

ROWS = [
    Row("GET", "/v1/account", "account:read"),
    Row("GET", "/v1/me", "deploy:read"),
    Row("GET", "/v1/projects", "deploy:read"),
    Row("GET", "/v1/projects/{project}", "deploy:read", Right.READ),
    Row("GET", "/v1/deployments", "deploy:read"),
    Row("GET", "/v1/deployments/{build}", "deploy:read", Right.READ),
    Row("GET", "/v1/deployments/{build}/log", "deploy:read", Right.READ),
    Row("POST", "/v1/deployments/{build}/rollback", "deploy:write", Right.DEPLOY, status=202),
    Row("POST", "/v1/deployments/{build}/promote", "deploy:write", Right.DEPLOY, {}, 202),
    Row("POST", "/v1/environments/{environment}/deploy", "deploy:write", Right.DEPLOY, status=202),
    Row("PATCH", "/v1/environments/{environment}/scale", "deploy:write", Right.DEPLOY, {"replicas": 3}, 202),
    Row(
        "PATCH",
        "/v1/environments/{environment}/runtime",
        "deploy:write",
        Right.DEPLOY,
        {"state": "running"},
        202,
    ),
    Row(
        "PUT",
        "/v1/environments/{environment}/variables",
        "deploy:write",
        Right.DEPLOY,
        {"variables": "A=1"},
    ),
    Row(
        "PUT",
        "/v1/projects/{project}/workflow",
        "deploy:write",
        Right.DEPLOY,
        {"workflow": "version: 1\nprocesses: {web: {command: serve}}"},
    ),
    Row("POST", f"{_CONFIGURATION}/plan", "deploy:write", Right.DEPLOY, _DOCUMENT),
    Row("POST", f"{_CONFIGURATION}/reviews", "deploy:write", Right.DEPLOY, _DOCUMENT, 201),
    Row("POST", f"{_CONFIGURATION}/reviews/{{review}}/apply", "deploy:write", Right.DEPLOY),
    Row("GET", f"{_CONFIGURATION}/applications/{{application}}", "deploy:read", Right.READ),
    Row("POST", f"{_OPERATION}/{{action}}", "deploy:write", Right.DEPLOY),
    Row("GET", "/v1/analytics/sites", "analytics:read"),
    Row("GET", "/v1/analytics/sites/{site}/report", "analytics:read"),
    Row("POST", "/v1/deployments", CredentialKind.INGEST_KEY, body=_REPORT, status=201),
    Row("GET", "/v1/ingest/receipts/{receipt}", CredentialKind.INGEST_KEY),
]

OPEN = {
    ("GET", "/schemas/workflow-1.json"),
    ("GET", "/schemas/configuration-2.json"),
    ("POST", "/repositories/{repository}/webhook"),
    ("POST", "/git-app/webhook"),
    ("POST", "/github-app/webhook"),
}
"""Routes without authentication: they respond the same to all callers, or their body is signed."""


def identities(parameter: str, tenant: Tenant, project: str = "shop") -> list[str | int]:
    """Return all identifiers of the tenant's object for the parameter: a number, a public ID, or both."""
    environment = tenant.environment(f"{project}/development")
    reviewed = tenant.reviewed[project]
    assert tenant.site is not None
    of_production = tenant.environment(f"{project}/production").public_id
    known: dict[str, list[str | int]] = {
        "project": [tenant.projects[project].public_id, tenant.projects[project].id],
        "environment": [environment.public_id, environment.id],
        "build": [tenant.deployments["development"].id],
        "site": [tenant.site.id],
        "receipt": [seal_receipt(receipt_name(of_production, "a batch"), of_production, RECEIPT_KEY)],
        "review": [reviewed.review],
        "application": [reviewed.run],
        "operation": [reviewed.step],
        "action": ["cancel"],
    }
    return known[parameter]


def addresses(row: Row, tenant: Tenant) -> list[str]:
    """Return the route's paths with objects of this tenant."""
    each = (identities(parameter, tenant) for parameter in row.parameters)
    return [
        row.at("", **dict(zip(row.parameters, chosen, strict=True))) for chosen in itertools.product(*each)
    ]


def address(row: Row, tenant: Tenant, **named: object) -> str:
    """Return one of the paths, with the parameters in `named` replaced."""
    own = {parameter: identities(parameter, tenant)[0] for parameter in row.parameters}
    return row.at("", **{**own, **named})


def body_of(row: Row, tenant: Tenant) -> dict[str, Any] | None:
    """Return a valid body for this tenant."""
    if row.path.endswith("/promote"):
        return {"target_environment_id": tenant.environment("shop/staging").public_id}
    return None if row.body is None else dict(row.body)


def credential(row: Row, tenant: Tenant) -> str:
    """Return a valid credential for the route."""
    return tenant.token() if row.is_for_people else tenant.ingest_key
