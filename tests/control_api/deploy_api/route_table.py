"""Every route of the control plane, with what it needs: the table that the tests of authorization go through."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from control_api.projects.roles import Right
from pipeline_contracts.credentials import CredentialKind
from pipeline_contracts.identifiers import receipt_name, seal_receipt
from tests.support.deploy_platform import RECEIPT_KEY, Tenant


@dataclass(frozen=True, slots=True)
class Row:
    """One route. `path` is the application's own without `/api`; what its parameter names is `named`."""

    method: str
    path: str
    needs: str | CredentialKind
    """The scope of an API token, or the kind of key."""
    right: Right | None = None
    """What the person has to be allowed in the project."""
    body: Mapping[str, Any] | None = None
    status: int = 200

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def is_for_people(self) -> bool:
        """Whether it takes API tokens."""
        return not isinstance(self.needs, CredentialKind)

    @property
    def named(self) -> str | None:
        """The path's parameter."""
        return self.path.partition("{")[2].partition("}")[0] or None

    def at(self, identity: object) -> str:
        """The address of this one."""
        before, brace, rest = self.path.partition("{")
        return f"{before}{identity}{rest.partition('}')[2]}" if brace else self.path


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
    Row("GET", "/v1/analytics/sites", "analytics:read"),
    Row("GET", "/v1/analytics/sites/{site}/report", "analytics:read"),
    Row("POST", "/v1/deployments", CredentialKind.INGEST_KEY, body=_REPORT, status=201),
    Row("GET", "/v1/ingest/receipts/{receipt}", CredentialKind.INGEST_KEY),
]


def identities(row: Row, tenant: Tenant) -> list[str | int]:
    """All that name what this tenant has for the route: a number, a public ID, or both."""
    environment = tenant.environment("shop/development")
    project = tenant.projects["shop"]
    assert tenant.site is not None
    match row.named:
        case "project":
            return [project.public_id, project.id]
        case "environment":
            return [environment.public_id, environment.id]
        case "build":
            return [tenant.deployments["development"].id]
        case "site":
            return [tenant.site.id]
        case "receipt":
            of = tenant.environment("shop/production").public_id
            return [seal_receipt(receipt_name(of, "a batch"), of, RECEIPT_KEY)]
    return []


def address(row: Row, tenant: Tenant) -> str:
    """The route's address with something of this tenant."""
    return row.at(next(iter(identities(row, tenant)), ""))


def body_of(row: Row, tenant: Tenant) -> dict[str, Any] | None:
    """A body that is good for this tenant."""
    if row.path.endswith("/promote"):
        return {"target_environment_id": tenant.environment("shop/staging").public_id}
    return None if row.body is None else dict(row.body)


def credential(row: Row, tenant: Tenant) -> str:
    """One that opens the route."""
    return tenant.token() if row.is_for_people else tenant.ingest_key
