"""Signed webhook requests as the three kinds of Git hosts send them, with small payloads."""

import base64
import hashlib
import hmac
import itertools
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select, update

from control_domain.repositories.webhook_secrets import decode_signing_key, make_secret, set_secret
from control_domain.tables.repositories import Repository
from control_domain.tables.webhooks import WaitingPush, WebhookDelivery
from control_domain.tables.workflows import Workflow
from git_hosts.webhook_events import WebhookSecret
from tests.support.deploy_platform import Platform, Response
from tests.support.serve_control import VARIABLE_KEYS

KINDS = ("github", "gitlab", "bitbucket")
NO_COMMIT = "0" * 40
BEFORE = "1" * 40
AFTER = "a" * 40
SKIP = "[skip deploy]"
WORKFLOW = f"""\
version: 1
processes: {{web: {{command: "true"}}}}
triggers:
  push: {{main: production, develop: staging}}
  pull_requests: {{from: staging, close: destroy}}
  skip: "{SKIP}"
"""
_EVENTS = {
    "github": {"push": "push", "pull": "pull_request"},
    "gitlab": {"push": "Push Hook", "pull": "Merge Request Hook"},
    "bitbucket": {"push": "repo:push", "pull": "pullrequest:created"},
}
_BITBUCKET_PULLS = {"opened": "created", "updated": "updated", "closed": "fulfilled"}
_counter = itertools.count(1)


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """The event and the body of a webhook request."""

    event: str
    body: bytes


def encode_request(event: str, payload: Any) -> WebhookRequest:
    """Return a request with the payload as JSON."""
    return WebhookRequest(event, json.dumps(payload).encode())


def push(
    kind: str,
    branch: str = "main",
    *,
    before: str = BEFORE,
    after: str = AFTER,
    message: str = "Sell more",
    full_name: str = "Acme/Shop",
    host_id: int = 1,
    installation: int | None = None,
) -> WebhookRequest:
    """Return a push of one branch. `before` or `after` of zeros: the branch was created or deleted."""
    is_deleted = after == NO_COMMIT
    payload: Any
    match kind:
        case "github":
            payload = {
                "ref": f"refs/heads/{branch}",
                "before": before,
                "after": after,
                "created": before == NO_COMMIT,
                "deleted": is_deleted,
                "head_commit": None if is_deleted else {"id": after, "message": message},
                "repository": {"id": host_id, "full_name": full_name},
                "pusher": {"name": "ada"},
            }
            if installation is not None:
                payload["installation"] = {"id": installation}
        case "gitlab":
            payload = {
                "object_kind": "push",
                "ref": f"refs/heads/{branch}",
                "before": before,
                "after": after,
                "checkout_sha": None if is_deleted else after,
                "user_username": "ada",
                "project": {"id": host_id, "path_with_namespace": full_name},
                "commits": [] if is_deleted else [{"id": after, "message": message}],
                "total_commits_count": 0 if is_deleted else 1,
            }
        case _:
            payload = {
                "actor": {"nickname": "ada"},
                "repository": {"uuid": uuid_of(host_id), "full_name": full_name},
                "push": {"changes": [bitbucket_change(branch, before, after, message)]},
            }
    return encode_request(_EVENTS[kind]["push"], payload)


def uuid_of(host_id: int) -> str:
    """Return the ID of a repository in Bitbucket's form."""
    return f"{{00000000-0000-0000-0000-{host_id:012d}}}"


def bitbucket_change(branch: str, before: str = BEFORE, after: str = AFTER, message: str = "Sell") -> Any:
    """Return one of the changes of a Bitbucket push."""

    def end(commit: str) -> Any:
        if commit == NO_COMMIT:
            return None
        return {"type": "branch", "name": branch, "target": {"hash": commit, "message": message}}

    return {
        "old": end(before),
        "new": end(after),
        "created": before == NO_COMMIT,
        "closed": after == NO_COMMIT,
        "forced": False,
    }


def pull(
    kind: str,
    action: str = "opened",
    number: int = 7,
    *,
    branch: str = "feature",
    revision: str = AFTER,
    is_fork: bool = False,
    full_name: str = "Acme/Shop",
    host_id: int = 1,
    installation: int | None = None,
) -> WebhookRequest:
    """Return the event of a pull request that was `opened`, `updated` or `closed`."""
    source = "Mallory/Shop" if is_fork else full_name
    payload: Any
    match kind:
        case "github":
            payload = {
                "action": "synchronize" if action == "updated" else action,
                "number": number,
                "pull_request": {
                    "head": {
                        "ref": branch,
                        "sha": revision,
                        "repo": {"id": len(source), "full_name": source},
                    },
                    "base": {"ref": "main", "repo": {"id": host_id, "full_name": full_name}},
                    "user": {"login": "ada"},
                },
                "repository": {"id": host_id, "full_name": full_name},
                "sender": {"login": "ada"},
            }
            if installation is not None:
                payload["installation"] = {"id": installation}
            return encode_request("pull_request", payload)
        case "gitlab":
            attributes = {
                "iid": number,
                "action": {"opened": "open", "updated": "update", "closed": "merge"}[action],
                "source_branch": branch,
                "target_branch": "main",
                "source_project_id": host_id + 1 if is_fork else host_id,
                "target_project_id": host_id,
                "last_commit": {"id": revision, "message": "Sell more"},
            }
            if action == "updated":
                attributes["oldrev"] = BEFORE
            payload = {
                "object_kind": "merge_request",
                "user": {"username": "ada"},
                "project": {"id": host_id, "path_with_namespace": full_name},
                "object_attributes": attributes,
            }
            return encode_request("Merge Request Hook", payload)
    payload = {
        "actor": {"nickname": "ada"},
        "repository": {"uuid": uuid_of(host_id), "full_name": full_name},
        "pullrequest": {
            "id": number,
            "source": {
                "branch": {"name": branch},
                "commit": {"hash": revision[:12]},
                "repository": {"full_name": source},
            },
            "destination": {"branch": {"name": "main"}, "repository": {"full_name": full_name}},
        },
    }
    return encode_request(f"pullrequest:{_BITBUCKET_PULLS[action]}", payload)


def sign(
    kind: str,
    secret: WebhookSecret,
    sent: WebhookRequest,
    delivery: str | None = None,
    at: float | None = None,
) -> dict[str, str | None]:
    """Return the headers of a signed request. Each call is a new delivery unless `delivery` names one."""
    delivery = delivery or f"delivery-{next(_counter)}"
    digest = hmac.digest(secret.value.encode(), sent.body, "sha256").hex()
    match kind:
        case "github":
            return {
                "X-GitHub-Event": sent.event,
                "X-GitHub-Delivery": delivery,
                "X-Hub-Signature-256": f"sha256={digest}",
            }
        case "bitbucket":
            return {
                "X-Event-Key": sent.event,
                "X-Request-UUID": delivery,
                "X-Hub-Signature": f"sha256={digest}",
            }
    named: dict[str, str | None] = {"X-Gitlab-Event": sent.event}
    if secret.kind == "plain":
        return {**named, "X-Gitlab-Token": secret.value, "X-Gitlab-Event-UUID": delivery}
    key = decode_signing_key(secret.value)
    assert key is not None
    moment = str(int(time.time() if at is None else at))
    signature = hmac.new(key, f"{delivery}.{moment}.".encode() + sent.body, hashlib.sha256).digest()
    return {
        **named,
        "webhook-id": delivery,
        "webhook-timestamp": moment,
        "webhook-signature": f"v1,{base64.b64encode(signature).decode()}",
    }


@dataclass(slots=True)
class WebhookRepository:
    """The repository of acme's shop, with a webhook of one kind, and its control plane."""

    platform: Platform
    repository_id: int
    kind: str
    secret: WebhookSecret

    async def deliver(
        self,
        sent: WebhookRequest,
        delivery: str | None = None,
        *,
        headers: Mapping[str, str | None] | None = None,
        body: bytes | None = None,
        path: str | None = None,
    ) -> Response:
        """Send a signed delivery; return the response. `headers` and `body` change it after signing."""
        signed = {**sign(self.kind, self.secret, sent, delivery), **dict(headers or {})}
        merged: dict[str, str | None] = {"Authorization": None, **signed}
        target = path or f"/repositories/{self.repository_id}/webhook"
        return await self.platform.call("POST", target, sent.body if body is None else body, headers=merged)

    async def deliver_status(self, sent: WebhookRequest, delivery: str | None = None) -> tuple[int, str]:
        """Deliver; return the HTTP status, and the `status` of the response or the problem type."""
        answer = await self.deliver(sent, delivery)
        document = answer.json()
        return answer.status, document["status"] if answer.status < 300 else answer.problem[1]

    async def change_kind(self, kind: str, *, plain: bool = False) -> None:
        """Change the repository's kind, and give it a new secret."""
        self.kind, self.secret = kind, make_secret(kind, plain=plain)
        async with self.platform.sessions() as session, session.begin():
            await session.execute(
                update(Repository).where(Repository.id == self.repository_id).values(kind=kind, host_id=None)
            )
            repository = await session.get_one(Repository, self.repository_id, populate_existing=True)
            await set_secret(session, VARIABLE_KEYS, repository, self.secret, datetime.now(UTC))

    async def change(self, **values: Any) -> None:
        """Set columns of the repository."""
        async with self.platform.sessions() as session, session.begin():
            await session.execute(
                update(Repository).where(Repository.id == self.repository_id).values(**values)
            )

    async def deliveries(self) -> list[WebhookDelivery]:
        """Return all stored deliveries, the oldest first."""
        async with self.platform.sessions() as session:
            query = select(WebhookDelivery).order_by(WebhookDelivery.id)
            return list((await session.execute(query)).scalars())

    async def waiting(self) -> list[WaitingPush]:
        """Return all waiting pushes, the oldest first."""
        async with self.platform.sessions() as session:
            query = select(WaitingPush).order_by(WaitingPush.id)
            return list((await session.execute(query)).scalars())

    async def set_workflow(self, text: str = WORKFLOW, project: str = "shop") -> None:
        """Make this the newest workflow document of a project."""
        number = self.platform.acme.projects[project].id
        async with self.platform.sessions() as session, session.begin():
            versions = select(Workflow.version).where(Workflow.project_id == number)
            version = max((await session.execute(versions)).scalars(), default=0) + 1
            session.add(Workflow(project_id=number, version=version, text=text, created_at=datetime.now(UTC)))


async def connect_webhook(platform: Platform, kind: str) -> WebhookRepository:
    """Give the repository of acme's shop a webhook of this kind, and the project a workflow with triggers."""
    project = platform.acme.projects["shop"]
    async with platform.sessions() as session:
        query = select(Repository.id).where(Repository.project_id == project.id)
        number = (await session.execute(query)).scalar_one()
    made = WebhookRepository(platform, number, kind, WebhookSecret("hmac", ""))
    await made.change_kind(kind)
    await made.change(full_name="acme/shop")
    await made.set_workflow()
    return made
